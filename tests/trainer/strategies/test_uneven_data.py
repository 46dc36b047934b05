"""Fewer examples than replicas or servers would share evenly: nothing is lost, nothing hangs."""

import pytest

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.trainer.support.jobs import expect_end, read_lines

# Without dropout, which is another one for each replica.
WORKLOAD = """
import keras
from trainer.workloads import *


def model(inputs):
    return keras.Model(inputs, keras.layers.Dense(1)(combine(inputs)))


workload = Table([Number("x"), Number("z")], label=Regression("y"), model=model)
"""


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


def test_few_examples_are_trained_and_evaluated_by_every_cluster(
    flags, start, start_cluster, tmp_path
):
    def flags_of(name):
        return [*flags, "--steps", 20, "--log-every-steps", 5, "--output-dir", tmp_path / name]

    alone = start("single", *flags_of("single"))
    workers = start_cluster(*flags_of("workers"), num_chiefs=0, num_workers=3, num_ps=0)
    expect_end([alone, *workers.values()])
    expect_end(start_cluster(*flags_of("servers"), num_workers=1, num_ps=4).values())  # 3 weights

    single, several, last = (
        read_lines(tmp_path / name, "eval")[-1] for name in ("single", "workers", "servers")
    )
    assert last["step"] == several["step"] == 20
    assert several["loss"] == pytest.approx(single["loss"], rel=1e-3)
