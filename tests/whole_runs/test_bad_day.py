"""A whole run on a service of which a tenth of all calls fails."""

from components.shared.vertex.api import connect
from tests.conftest import write_mnist
from tests.support.processes.whole_runs import Home
from tools.soak.bad_day import FAULTS, faulty_service, num_faults, run_once


def test_a_run_succeeds_though_a_tenth_of_all_calls_fails(tmp_path, monkeypatch):
    home = Home(tmp_path / "home", write_mnist(tmp_path / "mnist", num_train=64))
    with faulty_service(home, f"{FAULTS};seed=1") as url:
        monkeypatch.setenv("VERTEX_EMULATOR_HOST", url.removeprefix("http://"))

        assert run_once(home, connect("local", "us-central1")) == []

        assert sum(num_faults(home).values()) > 5
