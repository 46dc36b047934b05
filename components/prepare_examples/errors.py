"""What can be wrong with the data or with what was asked of it."""

import contextlib
import sys
from collections.abc import Iterator


class DataError(ValueError):
    """A problem a user can solve: the message names the file or field and what to do next."""


class RouteError(Exception):
    """One way of fetching data failed; the next one is tried."""


class DamagedError(RouteError):
    """A file arrived cut short, or is not the one that was asked for."""


@contextlib.contextmanager
def told_in_a_line() -> Iterator[None]:
    """End a pipeline's step with the message of a problem that its user can solve, no traceback."""
    try:
        yield
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")
