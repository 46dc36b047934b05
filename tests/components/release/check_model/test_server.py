"""Prediction server beside a step, with a child process that serves no model."""

import socket
import sys
import time
from urllib.parse import urlsplit

import pytest

from components.errors import StepError
from components.release.check_model import server

pytestmark = pytest.mark.timeout(60)


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


def test_a_server_that_exits_is_noticed_at_once(monkeypatch):
    monkeypatch.setattr(server, "_serve", lambda *_: sys.exit(3))

    with pytest.raises(StepError, match="exited with code 3"), server.serving("/no/model"):
        pass
