"""What can be wrong with the data or with what was asked of it."""

import contextlib
import logging
import re
import sys
from collections.abc import Iterator

from trainer.config.settings import ConfigError

WHERE_IN_BEAM = re.compile(r"( \[while running '[^']*'\])+")


class DataError(ValueError):
    """A problem a user can solve: the message names the file or field and what to do next."""


class RouteError(Exception):
    """One way of fetching data failed; the next one is tried."""


class DamagedError(RouteError):
    """A file arrived cut short, or is not the one that was asked for."""


@contextlib.contextmanager
def told_in_a_line() -> Iterator[None]:
    """End a pipeline's step with the message of a problem that its user can solve, no traceback.

    Beam logs an error with its traceback, and raises it with the name of its step as well.
    """
    beam = logging.getLogger("apache_beam")
    before = beam.level
    beam.setLevel(logging.CRITICAL)
    try:
        yield
    except (ConfigError, DataError, OSError, RuntimeError) as error:
        known = _known_cause(error)
        if known is None:
            raise
        words = WHERE_IN_BEAM.sub("", str(known))
        sys.exit(f"error: {' '.join(words.split())}")
    finally:
        beam.setLevel(before)


def _known_cause(error: BaseException | None) -> BaseException | None:
    """Return the error that a user can solve, which Beam may have wrapped in a RuntimeError."""
    if isinstance(error, RuntimeError) and not WHERE_IN_BEAM.search(str(error)):
        return None
    while error is not None and not isinstance(error, ConfigError | DataError | OSError):
        error = error.__cause__ or error.__context__
    return error
