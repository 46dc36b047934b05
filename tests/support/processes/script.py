"""Scripts of `new --script` in the process of a test: TensorFlow is imported once."""

import contextlib
import faulthandler
import sys
from collections.abc import Iterator, Sequence
from unittest import mock

import keras
import pytest

from pipelines.projects.scripts import record, recorder
from pipelines.projects.scripts.__main__ import main

PATCHED = (
    *((keras.Model, name) for name in ("save", "save_weights", "export")),
    (recorder, "current"),
    (sys, "argv"),
)


def run_scripts_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run scripts in this process until the test ends."""
    for owner, name in PATCHED:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(faulthandler, "register", mock.Mock())  # capsys has no file
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(record, "running", _called)


@contextlib.contextmanager
def _called(command: Sequence[str], **_environment: str) -> Iterator[mock.Mock]:
    with contextlib.chdir("."):
        main(command[1:])
    yield mock.Mock()
