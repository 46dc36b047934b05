"""A service with records of each kind, and a client of its pages."""

import pytest
from werkzeug.test import Client

from vertex_local import console
from vertex_local.app import Application
from vertex_local.console.web import error_page
from vertex_local.endpoints import forwarding


@pytest.fixture
def service(idle_service):
    idle_service.running[forwarding.KEY] = forwarding.Forwarder(idle_service, None)
    return idle_service


class Browser(Client):
    """Client that asks for pages."""

    def open(self, *args, headers=None, **options):
        return super().open(*args, headers={"Accept": "text/html", **(headers or {})}, **options)


@pytest.fixture
def client(service) -> Client:
    return Browser(Application(service, console.ROUTES, error_page))
