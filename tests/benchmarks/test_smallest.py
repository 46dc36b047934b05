"""Every benchmark, with its smallest numbers: each line that it prints is a comparison."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import write_mnist
from tests.support.processes.everything import EVERYTHING
from tests.support.processes.replicas import write_examples
from vertex_local.tests.support.forks import forks_with

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 470
NOT_RUN = {"cifar10_curve": "an hour long, and outside `make bench`"}
SMALLEST = {
    "batch_predict": "--rows 500 --images 100 --rounds 1",
    "endpoint_rate": "--clients 1 --seconds 1 --turns 1",
    "growth": "--dimensions versions --sizes 2,4",
    "image_folder": "--images 100 --rounds 1",
    "importance": "--rows 1000 --columns 2 --rounds 1",
    "serving_rate": "--workloads mnist --clients 1 --seconds 1 --rounds 1",
}
# For `make test-long`: the starts of their many processes alone cost more than ten seconds.
LONG = {
    "checkpoints": "--rounds 1 --steps 300",
    "cli_start": "--rounds 1",
    "defaults": "--tables wine --folds 1",
    "embedding_rows": "--optimizers sgd --sizes 4 --workers 1 --rounds 1",
    "growth --dimensions 'numeric columns'": "--sizes 2,4",
    "input_pipeline": "--workload taxi --rounds 1",
    "mnist_accuracy": "--seeds 1 --epochs 1",
    "prepare_cifar10": "--images 1000 --rounds 1",
    "prepare_taxi": "--rows 2000 --their-rows 500 --rounds 1",
    "scaling": "--models 'mnist cnn' --steps 50 --rounds 1 --batch-size 16",
    "serving": "--exchanges 1 --kills 1",
    "train_single": "--workload taxi --steps 20 --rounds 1",
    "warm_start": "--rounds 1 --workloads",
    "wide_table": "--rows 2000 --their-rows 500 --rounds 1",
}
NEEDS_PROGRAM = {"endpoint_rate": "wrk", "serving_rate": "wrk"}
NEEDS_DATA = {"prepare_cifar10": "cifar10", "prepare_taxi": "taxi"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with few examples and few raw files where the benchmarks look for theirs."""
    folder = tmp_path_factory.mktemp("benchmarks")
    cache = folder / ".trainyard" / "cache"
    cache.mkdir(parents=True)
    write_mnist(cache / "mnist")
    for data in NEEDS_DATA.values():
        (cache / data).symlink_to(ROOT / ".trainyard" / "cache" / data)
    examples = folder / ".trainyard" / "bench" / "mnist"
    examples.mkdir(parents=True)
    write_examples(examples)
    return folder


def test_every_benchmark_is_tried():
    names = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__"}
    assert names == {name.split()[0] for name in (*SMALLEST, *LONG, *NOT_RUN)}


@pytest.mark.linux("taskset and /proc, with which benchmarks measure, and services without a token")
@pytest.mark.timeout(TIMEOUT_SECONDS + 10)
@pytest.mark.parametrize(
    "name", [*SMALLEST, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)]
)
def test_a_benchmark_prints_its_comparisons(name, folder):
    if (program := NEEDS_PROGRAM.get(name)) and not shutil.which(program):
        pytest.skip(f"needs {program}")
    if (data := NEEDS_DATA.get(name)) and not (ROOT / ".trainyard" / "cache" / data).exists():
        pytest.skip(f"needs the data of {data}: trainyard run {data} fetches it")
    words = ["python", "-m", *shlex.split(f"benchmarks.{name} {(SMALLEST | LONG)[name]}")]
    log = folder / f"{name}.log"
    benchmark = forks_with(*EVERYTHING).start(
        words, log_path=log, cwd=str(folder), PYTHONPATH=str(ROOT)
    )
    assert benchmark.wait(TIMEOUT_SECONDS) == 0, log.read_text()[-3000:]
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert lines
    assert all({"name", "ours", "unit"} <= line.keys() for line in lines)
