"""Training equals Keras' `fit` on the same rows, or is refused: weights, and calls of callbacks."""

import re
import warnings

import numpy as np
import pytest

from tests.trainer.support.jobs import exported_variables
from tests.trainer.support.plain_cases import CASES
from tests.trainer.support.plain_fit import BATCH_SIZE, fit, train, write_examples
from tools.fit_table import PAGE, make_table
from trainer.errors import ConfigError

# The first case has both kinds of parts, others one in turn: tracing all parts takes most time.
# The steps are cut differently into calls, which may not matter.
PARTS = (
    {"num_devices": 2, "micro_batches": 2},
    {"num_devices": 2, "steps_per_call": 4},
    {"micro_batches": 2, "steps_per_call": 50},
)


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
    """In parts, by weights in pieces, where that is possible."""

    def trained(**settings):
        return train(case, tmp_path / str(len(settings)), examples_of(case.label), **settings)

    number = CASES.index(case)
    in_parts = {"num_pieces": 2, **PARTS[min(number, 1 + number % 2)]}
    if refusal := case.refusal or case.parts_refusal:
        with pytest.raises(ConfigError, match=refusal):
            trained(**in_parts)
    if not case.refusal:
        has_parts = case.has_parts and not case.parts_refusal
        ours = trained(**(in_parts if has_parts else {}))
        expect_equal(ours, fit(case), compares_calls=case.compares_calls)


@pytest.mark.long
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
        ours = exported_variables(tmp_path / "model")
        of_seeds = (np.int64, (2,))
        ours = [one for one in ours if (one.dtype, one.shape) != of_seeds]
        expect_equal_weights(ours, fit(case).weights)


CLUSTER_WORKLOAD = """
from tests.trainer.support.jobs import exported_variables
from tests.trainer.support.plain_cases import CASES

case = CASES[{}]
workload = case.workload(case.callbacks())
"""


def expect_equal(ours, plain, *, compares_calls):
    """Compare two outcomes: the weights to 1e-5, and the calls of the callbacks with their logs."""
    expect_equal_weights(ours.weights, plain.weights)
    assert [name for name, _ in ours.calls] == [name for name, _ in plain.calls]
    for (name, logs), (_, expected) in zip(ours.calls, plain.calls, strict=True):
        if compares_calls:
            assert set(expected) <= set(logs), name
            got = {key: logs[key] for key in expected}
            assert got == pytest.approx(expected, abs=1e-4), name


def expect_equal_weights(ours, plain):
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-4)


def test_the_table_of_the_documentation_is_that_of_the_cases():
    assert make_table(CASES) in PAGE.read_text(), "run: python -m tools.fit_table"
