import os
import signal

import pytest

from pipelines.runs.execute import _interrupted_once

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def restored_handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_and_later_ones_are_ignored(number):
    signal.signal(signal.SIGINT, signal.default_int_handler)

    with pytest.raises(KeyboardInterrupt), _interrupted_once():
        _send(number, signal.SIGINT, signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_background_job_ignores_sigint_and_ends_on_sigterm():
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with pytest.raises(KeyboardInterrupt), _interrupted_once():
        _send(signal.SIGINT, signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def _send(*numbers):
    """Send each signal to this process, the rest also if one raises."""
    first, *others = numbers
    try:
        os.kill(os.getpid(), first)
    finally:
        if others:
            _send(*others)
