"""A home with tiny images, whose service runs already."""

import pytest

from tests.support.processes.whole_runs import Home


@pytest.fixture
def home(tmp_path, tiny_mnist):
    home = Home(tmp_path / "home", tiny_mnist(num_train=64, num_test=200))
    with home.serving():
        yield home
