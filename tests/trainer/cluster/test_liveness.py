"""Detection of lost replicas."""

import os
import socket
import time

import pytest

from trainer.cluster.liveness import (
    LivenessWatch,
    Monitor,
    limit_silence,
    probe,
    wait_until_reachable,
)
from trainer.errors import ReplicaLostError
from vertex_local.tests.support.platform import IS_PORTABLE

pytestmark = pytest.mark.fast


def address_of(server):
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_listening_port_is_up_and_a_closed_one_refuses(listener):
    address = address_of(listener)
    assert probe(address) == "up"
    listener.close()
    assert probe(address) == "refused"


def test_a_replica_is_lost_only_after_some_time(listener, monkeypatch):
    watches = []
    for seconds in (0, 60):
        monkeypatch.setattr("trainer.cluster.liveness._REFUSED_SECONDS", seconds)
        watches.append(LivenessWatch({"worker/1": address_of(listener)}))
    hasty, patient = watches
    assert (hasty.find_lost(), patient.find_lost()) == ("", "")
    listener.close()
    assert hasty.find_lost().startswith("worker/1 (127.0.0.1:")
    assert patient.find_lost() == ""


def test_waiting_names_the_missing_replica(listener):
    up, refused = address_of(listener), "127.0.0.1:1"
    wait_until_reachable({"ps/0": up}, timeout_seconds=5)
    with pytest.raises(ReplicaLostError, match=r"0 s for worker/0 \(127.0.0.1:1\)"):
        wait_until_reachable({"ps/0": up, "worker/0": refused}, timeout_seconds=0.3)


def test_waiting_logs_missing_replicas(listener, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr("trainer.cluster.liveness._REMINDER_SECONDS", 0.2)
    addresses = {"worker/0": address_of(listener), "worker/1": "127.0.0.1:1"}
    with pytest.raises(ReplicaLostError):
        wait_until_reachable(addresses, timeout_seconds=0.5)
    assert "waiting for worker/1 (127.0.0.1:1)" in caplog.text


def test_a_monitor_raises_and_ends_a_process_that_does_not_react(listener, monkeypatch):
    monkeypatch.setattr("trainer.cluster.liveness._POLL_SECONDS", 0.05)
    monkeypatch.setattr("trainer.cluster.liveness._REACTION_SECONDS", 0.1)
    monkeypatch.setattr(
        "trainer.cluster.liveness.LivenessWatch.find_lost", lambda watch: "ps/0 is lost"
    )
    stuck = []
    monitor = Monitor({"ps/0": address_of(listener)}, on_stuck=stuck.append)
    deadline = time.monotonic() + 10
    while not stuck:
        assert time.monotonic() < deadline, "waited 10 s for on_stuck"
        time.sleep(0.02)
    with pytest.raises(ReplicaLostError, match="ps/0 is lost"):
        monitor.raise_if_lost()
    assert isinstance(monitor.explain(ValueError("x")), ReplicaLostError)
    monitor.close()


def test_only_connections_to_replicas_fail_in_silence():
    with (
        socket.create_server(("127.0.0.1", 0)) as replica,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.create_connection(replica.getsockname()) as to_replica,
        socket.create_connection(other.getsockname()) as to_other,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),  # its peer is no host and port
    ):
        num_open = len(os.listdir("/dev/fd"))

        assert limit_silence([address_of(replica)]) == 1

        for connection, milliseconds in ((to_replica, 15_000), (to_other, 0)):
            if not IS_PORTABLE:
                limit = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert limit == milliseconds
            keeps_alive = connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert bool(keeps_alive) is (connection is to_replica)
        to_replica.sendall(b"still open")
        assert len(os.listdir("/dev/fd")) == num_open
