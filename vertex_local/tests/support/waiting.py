"""Waiting for a condition, with a timeout that fails the test."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def wait_until(
    condition: Callable[[], Any],
    awaited: str = "the condition",
    *,
    timeout_seconds: float = 60,
    poll_seconds: float = 0.02,
) -> Any:
    """Return the first true value of `condition`; fail the test, naming `awaited`, if late."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(poll_seconds)
    pytest.fail(f"not within {timeout_seconds} s: {awaited}")


def wait_for_text(path: Path, text: str) -> str:
    """Wait until a file contains a text; return its content."""
    wait_until(lambda: path.exists() and text in path.read_text(), f"{text!r} in {path}")
    return path.read_text()
