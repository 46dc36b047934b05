import json
import math

import pytest

from vertex_local.pipelines import tasks
from vertex_local.pipelines.executor_messages import executor_input, read_outputs
from vertex_local.pipelines.run_state import TaskError
from vertex_local.rules.values import TaskValues

pytestmark = pytest.mark.fast

COMPONENT = {
    "inputDefinitions": {"artifacts": {"data": {}}},
    "outputDefinitions": {
        "parameters": {
            "count": {"parameterType": "NUMBER_INTEGER"},
            "ratio": {"parameterType": "NUMBER_DOUBLE"},
            "text": {"parameterType": "STRING"},
            "yes": {"parameterType": "BOOLEAN"},
        },
        "artifacts": {"metrics": {"artifactType": {"schemaTitle": "system.Metrics"}}},
    },
}


@pytest.fixture
def message(tmp_path):
    return executor_input(COMPONENT, TaskValues(), folder=str(tmp_path))


def write(message, **parameters) -> None:
    content = {"parameterValues": parameters}
    with open(message["outputs"]["outputFile"], "w") as file:
        json.dump(content, file)


def test_inputs_that_a_component_does_not_declare_are_parameters_only():
    made = {"name": "data", "uri": "/d", "type": {}, "metadata": {}}
    inputs = TaskValues({"pipelinechannel--a": 1}, {"data": [made], "other": [made]})
    message = executor_input(COMPONENT, inputs, folder="/f")
    assert message["inputs"] == {
        "parameterValues": {"pipelinechannel--a": 1},
        "artifacts": {"data": {"artifacts": [made]}},
    }


def test_outputs_have_the_types_of_their_component(message, tmp_path):
    write(message, count=3.0, ratio=math.nan)
    (tmp_path / "text").write_text("3\n")
    (tmp_path / "yes").write_text("True")
    outputs = read_outputs(COMPONENT, message)
    assert repr(outputs.parameters) == "{'count': 3, 'ratio': nan, 'text': '3\\n', 'yes': True}"


def test_an_artifact_is_where_the_step_was_told_to_write_it_unless_it_says_otherwise(
    message, tmp_path
):
    [planned] = read_outputs(COMPONENT, message).artifacts["metrics"]
    assert planned["uri"] == str(tmp_path / "metrics")
    metadata = {"accuracy": math.inf, "count": 3.0}
    changed = {"metrics": {"artifacts": [{"metadata": metadata, "uri": str(tmp_path / "b")}]}}
    (tmp_path / "executor_output.json").write_text(json.dumps({"artifacts": changed}))
    [made] = read_outputs(COMPONENT, message).artifacts["metrics"]
    assert (made["uri"], made["metadata"]) == (str(tmp_path / "b"), metadata)
    assert made["type"] == {"schemaTitle": "system.Metrics"}
    assert (tmp_path / "b").read_text() == "", "an empty file stands for it"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("count", math.nan, "its output 'count' is nan, which is no NUMBER_INTEGER"),
        ("count", math.inf, "its output 'count' is inf, which is no NUMBER_INTEGER"),
        ("count", "many", "its output 'count' is 'many', which is no NUMBER_INTEGER"),
        ("ratio", [1], "its output 'ratio' is [1], which is no NUMBER_DOUBLE"),
    ],
)
def test_an_output_of_another_type_is_named(message, name, value, problem):
    write(message, **{name: value})
    with pytest.raises(TaskError) as error:
        read_outputs(COMPONENT, message)
    assert str(error.value) == problem


def test_an_output_that_is_not_json_is_named(message, tmp_path):
    (tmp_path / "yes").write_text("perhaps")
    with pytest.raises(TaskError, match=r"its output 'yes' is 'perhaps', which is not JSON \(/"):
        read_outputs(COMPONENT, message)
    (tmp_path / "executor_output.json").write_text("{")
    with pytest.raises(TaskError, match=r"executor_output\.json is not the JSON of an Exec"):
        read_outputs(COMPONENT, message)


@pytest.mark.parametrize("num_lines", [1, 10, 17, 18, 19, 20, 30])
def test_the_error_of_a_step_has_its_own_last_lines_only(tmp_path, num_lines):
    path = tmp_path / "step.log"
    own = [f"line {number}" for number in range(num_lines)]
    logged = json.dumps({"inputs": {}, "outputs": {"outputFile": "/x"}}, indent=4)
    path.write_text("\n".join(["[KFP Executor] input:", logged, *own]))
    assert tasks.exit_message(1, path).partition("Last lines:\n")[2].split("\n") == own[-20:]
