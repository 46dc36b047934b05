"""Errors of steps that their message explains to the user."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path

from components.shared.vertex.errors import VertexError
from components.time_limit import TimeLimit
from trainer.errors import ConfigError, TrainerError

FINAL_ERROR = "final-error.txt"


class StepError(Exception):
    """A step cannot continue; the message says why and what to do."""


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[TimeLimit]:
    """End a pipeline's step with one line for an error that a user can solve, without traceback.

    A pipeline repeats a failed step. An error that would be the same again is kept beside the
    step's outputs, and the repeated step ends with it at once. Yields the step's time limit.
    """
    folder = _outputs_folder()
    if folder and (folder / FINAL_ERROR).exists():
        sys.exit((folder / FINAL_ERROR).read_text(encoding="utf-8"))
    limit = TimeLimit()
    try:
        yield limit
    except (StepError, TrainerError, VertexError, OSError) as error:
        reasons = error.problems if isinstance(error, ConfigError) else (str(error),)
        line = f"error: {' '.join('; '.join(reasons).split())}"
        if _is_final(error):
            _keep(line, folder)
        sys.exit(line)
    except Exception as error:
        _keep(f"{type(error).__name__}: {error}", folder)
        raise
    finally:
        limit.close()


def exit_code_of(command: Callable[[], None]) -> int:
    """Run a step from a command line; return the exit code: 0 done, 1 failed, 2 wrong input."""
    try:
        command()
    except (StepError, TrainerError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("stopped; nothing was written\n")
        return 130
    return 0


def _keep(line: str, folder: Path | None) -> None:
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FINAL_ERROR).write_text(line, encoding="utf-8")


def _is_final(error: Exception) -> bool:
    """Return whether a repeated step would end with the same error."""
    if isinstance(error, VertexError):
        is_busy = error.code == HTTPStatus.TOO_MANY_REQUESTS
        return error.code < HTTPStatus.INTERNAL_SERVER_ERROR and not is_busy
    return not isinstance(error, OSError)


def _outputs_folder() -> Path | None:
    """Return the folder of this step's outputs, from KFP's command line; None without one."""
    text = dict(pairwise(sys.argv)).get("--executor_input")
    return Path(json.loads(text)["outputs"]["outputFile"]).parent if text else None
