"""A client of the service."""

import pytest

from components.shared.vertex.api import EMULATOR_VARIABLE, connect


@pytest.fixture
def api(service, monkeypatch):
    """Return a client of the service's project."""
    monkeypatch.setenv(EMULATOR_VARIABLE, service.host)
    return connect(*service.parent.split("/")[1::2])
