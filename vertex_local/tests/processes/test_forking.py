"""Forks of the warm process and of supervisors, without a process."""

import errno
import os
import signal

import pytest

from vertex_local.processes import forking

pytestmark = pytest.mark.fast


def test_a_process_that_cannot_fork_keeps_its_signals_and_files(monkeypatch):
    def refuse():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    mask, files = signal.pthread_sigmask(signal.SIG_BLOCK, ()), forking.open_fds()
    try:
        with pytest.raises(BlockingIOError):
            forking.fork(forking.ForkSpec(run=refuse, stdin=0, output=1))
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
        assert forking.open_fds() == files
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
