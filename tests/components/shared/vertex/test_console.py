"""Addresses of pages that a user opens."""

import pytest

from components.shared.vertex.api import TOKEN_VARIABLE, connect
from components.shared.vertex.resource_name import to_open

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("http://h/runs/1", "http://h/runs/1?token=secret"),
        ("http://h/compare?run1=a", "http://h/compare?run1=a&token=secret"),
        ("", ""),
    ],
    ids=["page", "query", "none"],
)
def test_an_address_to_open_has_the_token(monkeypatch, page, expected):
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")
    assert to_open(page) == expected
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert to_open(page) == page


def test_requests_to_a_service_that_requires_a_token_have_it(monkeypatch):
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")
    assert connect("p", "l").session.headers["Authorization"] == "Bearer secret"
