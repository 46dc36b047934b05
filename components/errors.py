"""Errors of steps that their message explains to the user."""

import contextlib
import sys
from collections.abc import Iterator

from components.vertex.errors import VertexError
from trainer.errors import ClusterError, TrainerError


class StepError(Exception):
    """A step cannot continue; the message says why and what to do."""


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End a pipeline's step with one line for an error that a user can solve, without traceback."""
    try:
        yield
    except (StepError, TrainerError, VertexError, OSError) as error:
        reasons = error.problems if isinstance(error, ClusterError) else (str(error),)
        sys.exit(f"error: {' '.join('; '.join(reasons).split())}")
