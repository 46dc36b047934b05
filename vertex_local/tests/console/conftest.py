"""A service with records of each kind, and a client of its pages."""

from pathlib import Path

import pytest
from werkzeug.test import Client

from vertex_local import console
from vertex_local.api.database.store import Store
from vertex_local.api.service import Service
from vertex_local.app import Application
from vertex_local.console.web import error_page


@pytest.fixture
def service(tmp_path: Path):
    store = Store(tmp_path / "vertex.db")
    yield Service(root=tmp_path, store=store, url="http://127.0.0.1:1")
    store.close()


class Browser(Client):
    """Client that asks for pages."""

    def open(self, *args, headers=None, **options):
        return super().open(*args, headers={"Accept": "text/html", **(headers or {})}, **options)


@pytest.fixture
def client(service) -> Client:
    return Browser(Application(service, console.ROUTES, error_page))
