import json

import pytest

from vertex_local.pipelines import record
from vertex_local.rules import placeholders

pytestmark = pytest.mark.fast

JOB = {"name": "projects/p/locations/l/pipelineJobs/run-1", "createTime": "2026-01-31T12:00:00Z"}
MODEL = {"name": "m", "uri": "/m", "metadata": {"path": "deep", "shape": {"a.b": [1]}}}
INPUT = {
    "inputs": {
        "parameterValues": {"text": 'a "b"', "count": 3, "constant": "<{{$.pipeline_job_name}}>"},
        "artifacts": {"model": {"artifacts": [MODEL]}, "none": {"artifacts": []}},
    },
    "outputs": {"parameters": {"out": {"outputFile": "/o/out"}}, "outputFile": "/o/all.json"},
}


def test_whole_numbers_stay_whole_in_structures():
    mangled = {"workers": 2.0, "rate": 0.5, "list": [1.0, {"a": 3.0}], "text": "1.0", "yes": True}
    restored = {"workers": 2, "rate": 0.5, "list": [1, {"a": 3}], "text": "1.0", "yes": True}
    assert repr(placeholders.whole(mangled)) == repr(restored)


def test_only_placeholders_of_the_run_are_filled():
    values = record.run_values(JOB)
    text = "{{$.pipeline_google_cloud_project_id}}/{{$.pipeline_job_name}}{{$.pipeline_network}}"
    assert placeholders.fill(text, values) == "p/run-1"
    assert placeholders.fill("{{$.inputs.parameters['a']}}", values) == (
        "{{$.inputs.parameters['a']}}"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{$.inputs.parameters['text']}}!", 'a "b"!'),
        ("{{$.inputs.parameters['text'].json_escape[1]}}", 'a \\"b\\"'),
        ("{{$.inputs.parameters['count']}}", "3"),
        ("{{$.inputs.parameters['absent']}}", "null"),
        ("{{$.inputs.parameters['constant']}}", "<run-1>"),
        ("{{$.inputs.artifacts['model'].uri}} {{$.inputs.artifacts['model'].path}}", "/m /m"),
        ("{{$.inputs.artifacts['model'].metadata['path']}}", "deep"),
        ("{{$.inputs.artifacts['model'].metadata['shape']['a.b']}}", "[1]"),
        ('{{$.inputs.artifacts["model"].uri}}', "/m"),
        ("{{$.inputs.artifacts['none'].uri}}", "null"),
        ("{{$.outputs.parameters['out'].output_file}}", "/o/out"),
        ("{{$}}", json.dumps(INPUT)),
    ],
)
def test_placeholders_of_a_task_are_replaced(text, expected):
    assert placeholders.resolve(text, record.run_values(JOB), INPUT, {"constant"}) == expected


def test_a_placeholder_in_the_output_of_a_step_is_text():
    text = "{{$.inputs.parameters['constant']}}"
    assert placeholders.resolve(text, record.run_values(JOB), INPUT, set()) == (
        "<{{$.pipeline_job_name}}>"
    )


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"Concat": ["a=", "{{$.inputs.parameters['x']}}", "!"]}, ["a={{$.x}}!"]),
        ({"IfPresent": {"InputName": "x", "Then": ["--x", "1"], "Else": "--none"}}, ["--x", "1"]),
        ({"IfPresent": {"InputName": "y", "Then": ["--x", "1"], "Else": "--none"}}, ["--none"]),
        ({"IfPresent": {"InputName": "y", "Then": "--y"}}, []),
        ({"Concat": ["a", {"IfPresent": {"InputName": "y", "Then": "b"}}, "c"]}, ["ac"]),
        ({"IfPresent": {"InputName": "x", "Then": [{"Concat": ["b", "c"]}]}}, ["bc"]),
        ({"IfPresent": {"InputName": "file", "Then": "yes"}}, ["yes"]),
    ],
)
def test_concatenations_and_optional_parts_of_a_command(part, expected):
    def filled(text: str) -> str:
        return text.replace("{{$.inputs.parameters['x']}}", "{{$.x}}")

    inputs = {"parameterValues": {"x": "1"}, "artifacts": {"file": {"artifacts": [MODEL]}}}
    command = ["run", json.dumps(part), "--end"]
    assert placeholders.command(command, inputs, filled) == ["run", *expected, "--end"]


def resolve(template: str, fillable=(), **parameters) -> str:
    values, message = record.run_values(JOB), {"inputs": {"parameterValues": parameters}}
    return placeholders.resolve(template, values, message, fillable)


def test_an_escaped_placeholder_is_a_string_within_json():
    said = 'say "so"\n\\'
    text = """{"args": ["{{$.inputs.parameters['text'].json_escape[1]}}"]}"""
    assert json.loads(resolve(text, text=said)) == {"args": [said]}


def test_a_constant_that_holds_placeholders_is_resolved_but_the_executor_input_is_not():
    pools = ["{{$.json_escape[1]}}", "{{$.pipeline_job_name}}"]
    said = json.loads(resolve("{{$.inputs.parameters['pools']}}", ["pools"], pools=pools))
    assert said[1] == "run-1"
    assert json.loads(said[0]) == {"inputs": {"parameterValues": {"pools": pools}}}


def test_strings_in_structures_are_filled_with_other_arguments():
    text = "{{$.inputs.parameters['n']}}|{{$.inputs.parameters['s']}}|{{$.pipeline_job_name}}"
    arguments = {"n": 3.0, "s": 'a "b"'}
    values = {"{{$.pipeline_job_name}}": "run-1"}
    filled = placeholders.fill_inputs({"a": [text, 1]}, arguments, values)
    assert filled == {"a": ['3|a "b"|run-1', 1]}
