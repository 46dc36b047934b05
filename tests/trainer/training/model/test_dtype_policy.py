"""The dtype policy that a user's file sets: taken over, or refused."""

from types import SimpleNamespace

import keras
import pytest

from trainer.errors import ConfigError
from trainer.training.model import flat_model

CONFIG = SimpleNamespace(mixed_precision=False, model="")


@pytest.fixture
def workload():
    """A workload whose file may have set a policy for all layers."""
    before = keras.config.dtype_policy()
    yield SimpleNamespace(
        build_model=lambda _: keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    )
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize(("has_bfloat16", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_bfloat16_is_used_where_it_is_fast(workload, monkeypatch, has_bfloat16, expected):
    monkeypatch.setattr(flat_model, "has_bfloat16", lambda: has_bfloat16)
    keras.config.set_dtype_policy("mixed_bfloat16")
    trained = flat_model.build_model(workload, CONFIG)
    assert trained.layers[-1].compute_dtype == expected
    served = flat_model.build_served_model(workload, CONFIG)
    assert served.layers[-1].compute_dtype == "float32"


def test_float16_is_refused(workload):
    keras.config.set_dtype_policy("mixed_float16")
    with pytest.raises(ConfigError, match=r"sets the dtype policy mixed_float16: .*bfloat16"):
        flat_model.build_model(workload, CONFIG)
