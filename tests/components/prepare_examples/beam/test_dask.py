"""Beam's pipelines on a Dask cluster: a scheduler and two worker processes."""

import os
import signal
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from distributed import LocalCluster

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.processes.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

LOCAL = {
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",
    "worker_dashboard_address": "127.0.0.1:0",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("dask"))
    with LocalCluster(
        n_workers=2, threads_per_worker=1, local_directory=folder, **LOCAL
    ) as started:
        started.wait_for_workers(2, timeout=60)
        yield started


@pytest.fixture
def flags(cluster):
    return ("--runner=DaskRunner", f"--dask_client_address={cluster.scheduler_address}")


def work_once_killed(number: int, *, folder: str) -> dict:
    """Work; but the first that works on the fifth element is killed."""
    if number == 5:
        try:
            Path(folder, "killed").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    return {"number": number, "pid": os.getpid()}


def summary_of(results: Iterable[dict]) -> dict:
    every = list(results)
    numbers = sorted(one["number"] for one in every)
    return {"numbers": numbers, "pids": sorted({one["pid"] for one in every})}


def work_beside_another(number: int, *, folder: str) -> dict:
    """Work once two processes do."""
    Path(folder, str(os.getpid())).touch()
    wait_until(lambda: len(os.listdir(folder)) > 1, "a second worker of Dask")
    return {"number": number, "pid": os.getpid()}


def test_elements_are_spread_over_the_workers(tmp_path, flags):
    (folder := tmp_path / "pids").mkdir()
    work = partial(work_beside_another, folder=str(folder))
    found = run_pipeline(list(range(20)), work, summary_of, flags=flags, folder=tmp_path)
    assert found["numbers"] == list(range(20))
    assert os.getpid() not in found["pids"]
    assert len(found["pids"]) >= 2


def test_a_killed_worker_loses_no_element(tmp_path, flags):
    work = partial(work_once_killed, folder=str(tmp_path))
    found = run_pipeline(list(range(20)), work, summary_of, flags=flags, folder=tmp_path)
    assert (tmp_path / "killed").exists()
    assert found["numbers"] == list(range(20))
    assert os.getpid() not in found["pids"]


def fail_for_three(number: int) -> dict:
    if number == 3:
        raise DataError("row 3 of data.csv is not whole")
    return {"number": number}


def test_an_error_of_the_data_is_one_line(tmp_path, flags):
    with pytest.raises(DataError, match=r"^row 3 of data\.csv is not whole$"):
        run_pipeline(list(range(5)), fail_for_three, summary_of, flags=flags, folder=tmp_path)


def test_the_files_of_images_have_the_same_bytes(tmp_path, tiny_mnist, flags):
    check_bytes("mnist", tmp_path, flags, data_dir=tiny_mnist())


def test_the_files_of_a_table_have_the_same_bytes(tmp_path, taxi_rows, write_csv, flags):
    files = [write_csv(taxi_rows(500), f"{name}.csv") for name in ("one", "two")]
    check_bytes("taxi", tmp_path, flags, files=tuple(map(str, files)))


def check_bytes(workload, folder, flags, *, data_dir="", **given):
    for name, chosen in (("one", ()), ("other", flags)):
        options = PrepareOptions(trust_files=True, beam_options=chosen, **given)
        prepare(workload, output_dir=folder / name, data_dir=data_dir, options=options)
    one, other = (
        {path.name: path.read_bytes() for path in (folder / name).iterdir()}
        for name in ("one", "other")
    )
    assert len(one) > 5
    assert other == one


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ((), r"add --dask_client_address=HOST:PORT"),
        (("--dask_client_address=nowhere",), r"no Dask scheduler answers at 'nowhere'"),
        (("--dask_client_adress=x",), r"did you mean '--dask_client_address'"),
    ],
    ids=["none", "wrong", "misspelt"],
)
def test_a_wrong_address_is_named(tmp_path, tiny_mnist, flag, problem):
    options = PrepareOptions(trust_files=True, beam_options=("--runner=DaskRunner", *flag))
    with pytest.raises(DataError, match=problem):
        prepare("mnist", output_dir=tmp_path / "out", data_dir=tiny_mnist(), options=options)
    assert not (tmp_path / "out").exists()


def test_a_cluster_without_workers_is_named(tmp_path):
    with LocalCluster(n_workers=0, **LOCAL) as empty:
        flags = ("--runner=DaskRunner", f"--dask_client_address={empty.scheduler_address}")
        with pytest.raises(DataError, match="has no workers"):
            run_pipeline([1], fail_for_three, summary_of, flags=flags, folder=tmp_path)


def test_dask_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DataError, match=r"pip install 'trainyard\[dask\]'"):
        run_pipeline(
            [1], fail_for_three, summary_of, flags=["--runner=DaskRunner"], folder=tmp_path
        )
