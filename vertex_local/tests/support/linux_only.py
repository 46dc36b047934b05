"""Marks of tests that the portable control of processes cannot pass."""

import pytest

from vertex_local.machine.system import IS_PORTABLE


def linux_only(reason: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test in portable mode."""
    return pytest.mark.skipif(IS_PORTABLE, reason=f"Linux only: {reason}")
