"""Google's system tests as flows (tools/flows): all calls of the SDK are right but WRONG."""

import pytest

from tools.flows.__main__ import FLOWS, calls_of
from tools.flows.calls import Calls
from vertex_local.machine.buckets import MOUNT

# Vertex ML Metadata, data sets, explanations, TensorFlow's own protocol: 501 for good.
WRONG = {
    "pipeline_jobs": ["input_artifacts", "submit experiment", "get_pipeline_df"],
    "endpoints": ["direct_predict", "explain", "DeploymentResourcePool"],
    "custom_jobs": ["experiment"],
    "training_pipelines": ["dataset"],
}
if not MOUNT.is_dir():  # a path below it is in the command that the SDK writes for an image
    WRONG["custom_jobs"].append("from_local_script, image")


@pytest.mark.long
@pytest.mark.parametrize("flow", FLOWS)
def test_the_calls_of_a_flow_are_right(flow, tmp_path):
    wrong = {call.name: call.reason for call in calls_of(flow, tmp_path) if call.reason}
    assert sorted(wrong) == sorted(WRONG.get(flow, [])), wrong


@pytest.mark.fast
def test_a_call_is_right_unless_it_raises_or_returns_false():
    calls = Calls("any")
    assert calls("value", lambda: 7) == 7
    calls("nothing", lambda: None)
    calls("wrong", lambda: False)
    calls("error", lambda: 1 / 0)
    calls.raises("refused", ZeroDivisionError, lambda: 1 / 0)
    calls.raises("not refused", ZeroDivisionError, lambda: 1)
    assert [call.name for call in calls.all if call.reason] == ["wrong", "error", "not refused"]
