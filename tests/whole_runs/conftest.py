"""A home without data, where a module has no other."""

import pytest

from tests.support.processes.whole_runs import Home


@pytest.fixture
def home(tmp_path):
    (tmp_path / "data").mkdir()
    home = Home(tmp_path / "home", tmp_path / "data")
    with home.serving():
        yield home
