"""Prediction server beside a step, with a child process that serves no model."""

import select
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

from components.errors import StepError
from components.evaluate.server import server

pytestmark = pytest.mark.timeout(60)
FORKED = pytest.mark.linux("forks here, in which what a test replaces stays replaced")

# Starts a server that says so and then sleeps, with the pipe of its output open.
STEP = """
import time
from components.evaluate.server import server
from trainer import serve
serve.main = lambda *_, **__: (print("started", flush=True), time.sleep(50))
with server.serving("/no/model"):
    pass
"""


@FORKED
def test_no_other_server_can_take_the_port(monkeypatch):
    def await_healthy(process, url: str) -> None:
        del process
        port = urlsplit(url).port
        with pytest.raises(OSError, match="in use"):
            socket.create_server((server.HOST, port))

    monkeypatch.setattr(server, "_serve", lambda *_: time.sleep(30))
    monkeypatch.setattr(server, "_await_healthy", await_healthy)

    with server.serving("/no/model") as url:
        assert url.endswith(server.PREDICT_ROUTE)


@FORKED
def test_a_server_that_exits_is_noticed_at_once(monkeypatch):
    monkeypatch.setattr(server, "_serve", lambda *_: sys.exit(3))

    with pytest.raises(StepError, match="exited with code 3"), server.serving("/no/model"):
        pass


@FORKED
def test_the_server_ends_with_a_step_that_is_terminated():
    with subprocess.Popen([sys.executable, "-c", STEP], stdout=subprocess.PIPE) as step:
        assert step.stdout.readline() == b"started\n"
        step.terminate()
        step.wait(10)
        ended, _, _ = select.select([step.stdout], [], [], 10)

        assert ended
        assert step.stdout.read() == b""
