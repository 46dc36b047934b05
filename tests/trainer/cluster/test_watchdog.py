import signal
import socket
import subprocess
import sys
import time

import pytest

from trainer.cluster.tf_config import Cluster, check_port
from trainer.cluster.watchdog import Watchdog
from trainer.errors import EXIT_RESTART, TrainerError
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.fast

STALL = 0.4
# Holds the GIL, as native code may: no Python thread can run.
HOLD_THE_GIL = "import ctypes; ctypes.PyDLL(None).sleep(60)"
SLEEP = "import time; time.sleep(60)"
WATCH = """
import logging
from trainer.cluster import watchdog
logging.basicConfig(format="chief/0 %(message)s")
watchdog._NATIVE_MARGIN_SECONDS = 0.5
def notify(why): print("notified:", why, flush=True)
with watchdog.end_on_stall(0.5, notify=notify):
    {body}
"""


@pytest.fixture
def watch():
    """Starts a watchdog; returns it and the (number, message) of each stall."""
    stalls, dogs = [], []

    def start(**options):
        def note(why, num_stalls):
            stalls.append((num_stalls, why))

        dogs.append(Watchdog(STALL, on_stall=note, **options))
        return dogs[-1], stalls

    yield start
    for dog in dogs:
        dog.close()


def test_a_stall_is_reported_repeatedly_until_there_is_progress(watch):
    dog, stalls = watch()
    wait_until(lambda: len(stalls) >= 2)
    assert [number for number, _ in stalls[:2]] == [1, 2]
    assert "for 0 s" in stalls[0][1]

    dog.report_progress()
    number = len(stalls)
    wait_until(lambda: len(stalls) > number)
    assert stalls[number][0] == 1


def test_an_excused_wait_is_not_a_stall(watch):
    waits = [True]
    _, stalls = watch(is_excused=lambda: waits[0])
    time.sleep(3 * STALL)
    assert stalls == []
    waits[0] = False
    wait_until(lambda: stalls)


@pytest.mark.parametrize(
    ("body", "code", "is_notified"),
    [
        pytest.param(SLEEP, EXIT_RESTART, True, id="python-waits"),
        pytest.param(HOLD_THE_GIL, -signal.SIGALRM, False, id="native-code-holds-the-gil"),
    ],
)
def test_a_stalled_process_ends_with_its_stacks(body, code, is_notified):
    script = WATCH.format(body=body)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == code
    assert 'File "<string>", line 8 in <module>' in done.stderr  # the main thread's stack
    assert ("notified: no step" in done.stdout) is is_notified


@pytest.mark.parametrize(
    ("strategy", "roles"),
    [
        ("parameter_server", ("chief", "worker", "ps")),
        ("multi_worker_mirrored", ("chief", "worker")),
    ],
)
def test_a_taken_port_is_named_with_its_replica(strategy, roles):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for role in roles:
            cluster = Cluster(task_type=role, addresses={role: (address,)})
            with pytest.raises(TrainerError, match=f"{role}/0 cannot serve at {address}: port"):
                check_port(cluster, strategy=strategy)
        check_port(cluster, strategy="single")
    check_port(cluster, strategy=strategy)


def test_an_evaluator_needs_no_port():
    cluster = Cluster(task_type="evaluator", addresses={"chief": ("127.0.0.1:1",)})
    check_port(cluster, strategy="parameter_server")
