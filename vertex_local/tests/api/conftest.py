"""A store of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from vertex_local.api.database.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Open a new database, and close it after the test."""
    store = Store(tmp_path / "vertex.db")
    yield store
    store.close()
