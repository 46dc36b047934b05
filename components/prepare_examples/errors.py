"""Errors about data and options."""

import contextlib
import logging
import re
import sys
from collections.abc import Iterator

from trainer.config.settings import ConfigError

STEP_OF_BEAM = re.compile(r"( \[while running '[^']*'\])+")


class DataError(ValueError):
    """An error that a user can fix: the message names the file or field and what to do."""


class RouteError(Exception):
    """A route of fetching failed; the next one is tried."""


class DamagedError(RouteError):
    """A downloaded file is truncated or has another checksum."""


@contextlib.contextmanager
def exit_on_user_errors() -> Iterator[None]:
    """Exit with a one-line message, without a traceback, on errors that the user can fix.

    Beam's log is silenced, because it would contain the traceback, and the name of Beam's step is
    removed from messages.
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
        words = STEP_OF_BEAM.sub("", str(known))
        sys.exit(f"error: {' '.join(words.split())}")
    finally:
        beam.setLevel(before)


def _known_cause(error: BaseException | None) -> BaseException | None:
    """Return the error that a user can fix, which Beam may have wrapped in a RuntimeError."""
    if isinstance(error, RuntimeError) and not STEP_OF_BEAM.search(str(error)):
        return None
    while error is not None and not isinstance(error, ConfigError | DataError | OSError):
        error = error.__cause__ or error.__context__
    return error
