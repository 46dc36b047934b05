"""A chief that connects to its workers."""

import contextlib
import json
import socket

from trainer.errors import EXIT_RESTART


def test_a_worker_that_is_lost_while_the_chief_connects_is_named(
    start_cluster, examples_dir, tmp_path
):
    flags = ["--workload", "mnist", "--examples-dir", examples_dir, "--output-dir", tmp_path]
    replicas = start_cluster(*flags, later={"worker/0", "chief/0"})
    config = json.loads(replicas["worker/0"].keywords["TF_CONFIG"])
    host, port = config["cluster"]["worker"][0].split(":")
    with socket.create_server((host, int(port)), backlog=128) as server:  # of no replica
        server.settimeout(60)
        chief = replicas["chief/0"]()
        while not is_of_grpc(server.accept()[0]):
            pass
    assert chief.wait(60) == EXIT_RESTART, chief.log
    assert f"worker/0 ({host}:{port}) has been unreachable for" in chief.log


def is_of_grpc(connection):
    """Return whether a connection is TensorFlow's, not a probe of its port; close it."""
    with connection, contextlib.suppress(ConnectionError):
        return connection.recv(3) == b"PRI"
    return False
