"""Errors about data."""

from collections.abc import Callable, Sequence
from pathlib import Path

from components.errors import StepError


class DataError(StepError, ValueError):
    """Unusable data or options; the message names the file or field and what to do.

    `about` is the column, or the function of the declaration, that it is about; `parts` are the
    independent mistakes, if they are several.
    """

    def __init__(self, text: str, *, about: str = "", parts: Sequence["DataError"] = ()):
        super().__init__(text)
        self.about, self.parts = about, parts


Refuse = Callable[[DataError], None]
# Of a planned run: write the examples to a folder and then what describes them, the manifest last;
# refuse what a run cannot use.
Write = Callable[[Path, Refuse], None]


def fail(error: DataError) -> None:
    """Raise an error about examples that are written, as a run does; a check collects them."""
    raise error


class RouteError(Exception):
    """A route of fetching failed; the next one is tried."""


class DamagedError(RouteError):
    """A downloaded file is truncated or has another checksum."""
