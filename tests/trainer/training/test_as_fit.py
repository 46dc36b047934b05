"""Training equals Keras' `fit` on the same rows, or is refused: weights, and calls of callbacks."""

import numpy as np
import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

from tests.trainer.support.plain_cases import CASES  # noqa: E402
from tests.trainer.support.plain_fit import fit, train, write_examples  # noqa: E402
from trainer.errors import ConfigError  # noqa: E402

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]


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


@pytest.mark.parametrize("num_devices", [1, 2], ids=["single", "mirrored"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.argument}-{case.value}")
def test_a_model_is_trained_as_by_fit(case, num_devices, examples_of, tmp_path):
    examples_dir = examples_of(case.label)
    if case.refusal:
        with pytest.raises(ConfigError, match=case.refusal):
            train(case, tmp_path, examples_dir, num_devices=num_devices)
        return
    # Nor may the number of steps in a call matter.
    settings = {"num_devices": num_devices, "steps_per_call": 50 if num_devices == 1 else 4}
    ours = train(case, tmp_path, examples_dir, **settings)
    plain = fit(case)
    assert len(ours.weights) == len(plain.weights)
    for ours_, plain_ in zip(ours.weights, plain.weights, strict=True):
        np.testing.assert_allclose(ours_, plain_, atol=1e-5, rtol=1e-4)
    assert [name for name, _ in ours.calls] == [name for name, _ in plain.calls]
    for (name, logs), (_, expected) in zip(ours.calls, plain.calls, strict=True):
        assert set(expected) <= set(logs), name
        assert {key: logs[key] for key in expected} == pytest.approx(expected, abs=1e-4), name
