"""Training equals Keras' `fit` on the same rows, or is refused: weights, and calls of callbacks."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import tensorflow as tf  # noqa: E402

from tests.trainer.support.plain_cases import CASES  # noqa: E402
from tests.trainer.support.plain_fit import BATCH_SIZE, fit, train, write_examples  # noqa: E402
from tests.trainer.support.plain_table import make_table  # noqa: E402
from trainer.errors import ConfigError  # noqa: E402

pytestmark = pytest.mark.timeout(120)
# In each the steps are cut differently into calls, which may not matter.
STRATEGIES = {
    "single": {"steps_per_call": 50},
    "mirrored": {"num_devices": 2, "steps_per_call": 4},
}
IS_LONG = os.environ.get("AS_FIT") == "all"
if IS_LONG:
    STRATEGIES["micro-batches"] = {"micro_batches": 2}


@pytest.fixture(scope="module")
def examples_of(tmp_path_factory):
    """Return the folder with the examples of a kind of label."""
    folders = {}

    def folder_of(label):
        kind = type(label).__name__
        if kind not in folders:
            folders[kind] = write_examples(tmp_path_factory.mktemp(kind), label)
        return folders[kind]

    return folder_of


@pytest.fixture(autouse=True)
def warnings_of_keras():
    """Let Keras warn: of from_logits after softmax, of arrays, of SavedModel's format."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_is_trained_as_by_fit(case, examples_of, tmp_path):
    plain = None if case.refusal else fit(case)
    for name, settings in STRATEGIES.items():
        has_parts = name != "single"
        refusal = case.refusal or (case.parts_refusal if has_parts else "")
        if refusal:
            with pytest.raises(ConfigError, match=refusal):
                train(case, tmp_path / name, examples_of(case.label), **settings)
        elif case.has_parts or not has_parts:
            ours = train(case, tmp_path / name, examples_of(case.label), **settings)
            expect_equal(ours, plain, compares_calls=case.compares_calls)


@pytest.mark.skipif(not IS_LONG, reason="AS_FIT=all trains in clusters, too")
@pytest.mark.parametrize("sizes", [(0, 2, 0), (1, 1, 1)], ids=["workers", "parameter server"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_is_trained_in_a_cluster_as_by_fit(
    case, sizes, examples_of, tmp_path, start_cluster
):
    if case.writes_files:
        pytest.skip("its callbacks write files")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/workload.py").write_text(CLUSTER_WORKLOAD.format(CASES.index(case)))
    flags = ["--workload", tmp_path / "own", "--examples-dir", examples_of(case.label)]
    flags += ["--epochs", case.epochs, "--batch-size", BATCH_SIZE, "--output-dir", tmp_path]
    num_chiefs, num_workers, num_ps = sizes
    cluster = {"num_chiefs": num_chiefs, "num_workers": num_workers, "num_ps": num_ps}
    replicas = start_cluster(*flags, **cluster)
    codes = {replica.name: replica.wait() for replica in replicas.values()}
    logs = "".join(replica.log for replica in replicas.values())
    has_parts = not num_ps
    if refusal := case.refusal or (case.parts_refusal if has_parts else ""):
        assert re.search(refusal, logs)
    elif (case.has_parts or not has_parts) and not (num_ps and case.callbacks is not tuple):
        # On parameter servers calls in flight may be finished after an epoch that changes them.
        assert not any(codes.values()), logs
        for ours, plain in zip(read_variables(tmp_path / "model"), fit(case).weights, strict=True):
            np.testing.assert_allclose(ours, plain, atol=1e-5, rtol=1e-4)


CLUSTER_WORKLOAD = """
from tests.trainer.support.plain_cases import CASES

case = CASES[{}]
workload = case.workload(case.callbacks())
"""


def read_variables(folder):
    """Return the variables of an exported model without counters of random numbers."""
    exported = tf.train.load_checkpoint(str(folder / "variables/variables"))
    names = [name for name in exported.get_variable_to_shape_map() if name.startswith("_variables")]
    values = [exported.get_tensor(name) for name in sorted(names, key=number_of)]
    return [one for one in values if (one.dtype, one.shape) != (np.int64, (2,))]


def number_of(name):
    return int(name.split("/")[1])


def expect_equal(ours, plain, *, compares_calls):
    """Compare two outcomes: the weights to 1e-5, and the calls of the callbacks with their logs."""
    for ours_, plain_ in zip(ours.weights, plain.weights, strict=True):
        np.testing.assert_allclose(ours_, plain_, atol=1e-5, rtol=1e-4)
    assert [name for name, _ in ours.calls] == [name for name, _ in plain.calls]
    for (name, logs), (_, expected) in zip(ours.calls, plain.calls, strict=True):
        if compares_calls:
            assert set(expected) <= set(logs), name
            got = {key: logs[key] for key in expected}
            assert got == pytest.approx(expected, abs=1e-4), name


def test_the_table_of_the_documentation_is_that_of_the_cases():
    text = (Path(__file__).parents[3] / "docs/training.md").read_text()
    table = make_table(CASES)
    assert table in text, f"put this into docs/training.md:\n{table}"
