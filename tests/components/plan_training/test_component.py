"""The component: its outputs, and its end for an error that the user can fix."""

from functools import partial

import pytest
from kfp.dsl import Artifact

from components.plan_training.component import plan_training

pytestmark = pytest.mark.fast


@pytest.fixture
def plan(tmp_path):
    return partial(planned, drift=Artifact(uri=str(tmp_path / "drift")))


def planned(model, *, drift, cluster="{}", train="{}", examples="/examples"):
    return plan_training.python_func(
        workload="mnist",
        cluster=cluster,
        train=train,
        image="i:1",
        examples=Artifact(uri=examples),
        model=model,
        drift=drift,
    )


def test_the_model_is_the_one_that_the_job_will_write(plan):
    model = Artifact(uri="/run/train")

    _, base_output_directory, timeout, *_ = plan(model, cluster='{"timeout_seconds": 60}')

    assert base_output_directory == "/run/train"
    assert timeout == "60s"
    assert model.uri == "/run/train/model"
    assert model.metadata["containerSpec"]["imageUri"] == "i:1"


@pytest.mark.parametrize(
    ("examples", "resource"),
    [("gs://b/examples", "pool-1"), ("/examples", "")],
    ids=["vertex", "this-machine"],
)
def test_a_persistent_resource_is_used_on_vertex_ai_only(plan, examples, resource):
    """A package is the same in both places; vertex-local has no persistent resources."""
    cluster = '{"persistent_resource": "pool-1"}'
    *_, planned, _, _, _ = plan(Artifact(uri="/run/train"), cluster=cluster, examples=examples)

    assert planned == resource


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"cluster": '{"workers": -1}'}, ["workers is -1"], id="value"),
        pytest.param(
            {"cluster": '{"strategy": "mirrored", "workers": 1, "evaluators": 2}'},
            ["evaluators is 2", "workers is 1"],
            id="all-problems",
        ),
        pytest.param({"cluster": '{"wokers": 2}'}, ["'wokers'", "'workers'?"], id="key"),
        pytest.param({"cluster": "workers"}, ["cluster", "JSON", "'workers'"], id="no-cluster"),
        pytest.param({"train": "[1]"}, ["train", "JSON", "'[1]'"], id="no-train"),
    ],
)
def test_an_error_of_the_user_is_one_line(plan, arguments, words):
    with pytest.raises(SystemExit) as ended:
        plan(Artifact(uri="/run/train"), **arguments)

    line = str(ended.value.code)
    assert line.startswith("error: ")
    assert "\n" not in line
    assert all(word in line for word in words), line
