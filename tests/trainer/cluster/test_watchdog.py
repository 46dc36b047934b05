import socket
import subprocess
import sys
import time

import pytest

from trainer.cluster.ports import check_port
from trainer.cluster.tf_config import Cluster
from trainer.cluster.watchdog import Watchdog
from trainer.errors import EXIT_RESTART, ClusterError

pytestmark = pytest.mark.fast

STALL = 0.4
# Holds Python's lock, as native code may: no thread of ours can run.
HOLD_THE_LOCK = "import ctypes; ctypes.PyDLL(None).sleep(60)"
STAND_STILL = "import time; time.sleep(60)"
WATCH = """
import logging
from trainer.cluster import watchdog
logging.basicConfig(format="chief/0 %(message)s")
watchdog._NATIVE_MARGIN_SECONDS = 0.5
def tell(why): print("told:", why, flush=True)
with watchdog.watching(0.5, tell=tell):
    {body}
"""


@pytest.fixture
def watch():
    """Starts a watchdog; answers it and what it has said."""
    said, dogs = [], []

    def start(**options):
        def note(why, num_stalls):
            said.append((num_stalls, why))

        dogs.append(Watchdog(STALL, on_stall=note, **options))
        return dogs[-1], said

    yield start
    for dog in dogs:
        dog.close()


def wait_for(condition, *, timeout_seconds=10):
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_seconds} s for the watchdog"
        time.sleep(0.02)


def test_a_stall_is_told_again_and_again_until_there_is_progress(watch):
    dog, said = watch()
    wait_for(lambda: len(said) >= 2)
    assert [number for number, _ in said[:2]] == [1, 2]
    assert said[0][1] == "no step has finished for 0 s"

    dog.progressed()
    number = len(said)
    wait_for(lambda: len(said) > number)
    assert said[number][0] == 1


def test_items_that_are_reached_are_progress(watch):
    dog, said = watch()
    for _ in dog.watched(range(8)):
        time.sleep(STALL / 4)
    assert said == []


def test_a_wait_with_a_known_reason_is_no_stall(watch):
    waits = [True]
    _, said = watch(is_excused=lambda: waits[0])
    time.sleep(3 * STALL)
    assert said == []
    waits[0] = False
    wait_for(lambda: said)


@pytest.mark.parametrize(
    ("body", "code", "is_told"),
    [
        pytest.param(STAND_STILL, EXIT_RESTART, True, id="python-waits"),
        pytest.param(HOLD_THE_LOCK, 1, False, id="native-code-holds-the-lock"),
    ],
)
def test_a_process_that_stands_still_ends_with_its_stacks(body, code, is_told):
    script = WATCH.format(body=body)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == code
    assert 'File "<string>", line 8 in <module>' in done.stderr  # the main thread's stack
    assert ("told: no step has finished for" in done.stdout) is is_told


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
            with pytest.raises(ClusterError, match=f"{role}/0 cannot serve at {address}: port"):
                check_port(cluster, strategy=strategy)
        check_port(cluster, strategy="single")
    check_port(cluster, strategy=strategy)


def test_an_evaluator_needs_no_port():
    cluster = Cluster(task_type="evaluator", addresses={"chief": ("127.0.0.1:1",)})
    check_port(cluster, strategy="parameter_server")
