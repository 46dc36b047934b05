"""Fewer examples than replicas or servers would share evenly: nothing is lost, nothing hangs."""

import json

import pytest

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions

pytestmark = pytest.mark.timeout(180)
# Without dropout, which is another one for each replica.
WORKLOAD = """
import keras
from trainer.workloads import *


def model(inputs):
    return keras.Model(inputs, keras.layers.Dense(1)(combine(inputs)))


workload = Table([Number("x"), Number("z")], label=Regression("y"), model=model)
"""
CLUSTERS = {
    "multi_worker_mirrored": {"num_chiefs": 0, "num_workers": 3, "num_ps": 0},
    "parameter_server": {"num_workers": 2, "num_ps": 5},
}


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """The flags of a job with few examples of a table."""
    folder = tmp_path_factory.mktemp("few")
    (folder / "own").mkdir()
    (folder / "own" / "workload.py").write_text(WORKLOAD)
    rows = [f"{number},{number % 5},{number % 7}" for number in range(28)]
    (folder / "rows.csv").write_text("\n".join(["x,z,y", *rows, ""]))
    ratios = {"train": 0.4, "eval": 0.3, "test": 0.3}
    options = PrepareOptions(files=[str(folder / "rows.csv")], ratios=ratios)
    manifest = prepare(str(folder / "own"), output_dir=folder / "examples", options=options)
    sizes = [split["num_examples"] for split in manifest["splits"].values()]
    assert sum(sizes) == 28
    assert sizes[0] == 11  # no number of workers divides it
    return ["--workload", folder / "own", "--examples-dir", folder / "examples", "--batch-size", 4]


@pytest.mark.parametrize("strategy", CLUSTERS)
def test_few_examples_are_trained_and_evaluated_by_every_cluster(
    strategy, flags, start, start_cluster, tmp_path
):
    words = [*flags, "--steps", 20, "--log-every-steps", 5]
    alone = start("single", *words, "--output-dir", tmp_path / "single")
    cluster = start_cluster(
        *words, "--strategy", strategy, "--output-dir", tmp_path / "many", **CLUSTERS[strategy]
    )
    for replica in [alone, *cluster.values()]:
        assert replica.wait() == 0, replica.log

    last = {name: lines(tmp_path / name, "eval")[-1] for name in ("single", "many")}
    assert last["many"]["step"] == 20
    if strategy != "parameter_server":  # whose steps are asynchronous
        assert last["many"]["loss"] == pytest.approx(last["single"]["loss"], rel=1e-3)


def lines(out, split):
    """Return the lines of a split in a job's metrics."""
    found = map(json.loads, (out / "logs/metrics.jsonl").read_text().splitlines())
    return [line for line in found if line["split"] == split]
