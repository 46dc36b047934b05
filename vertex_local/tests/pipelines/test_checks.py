"""Check before a run: importers and containers."""

import pytest

from vertex_local.errors import ApiError
from vertex_local.pipelines.record import canonical, check_tasks

pytestmark = pytest.mark.fast

EXECUTOR = "exec"
OLD_PYTHON = "python3 -m kfp.components.executor_main"
PYTHON = ["sh", "-ec", "python3 -m kfp.dsl.executor_main"]


def problem_of(spec: dict, *, is_host: bool = False, **values) -> str:
    """Return the error of the check; empty if the pipeline may run."""
    try:
        check_tasks(spec, values, runs_host_commands=is_host)
    except ApiError as error:
        return error.message
    return ""


def spec_of(executor: dict, **task) -> dict:
    """Return a pipeline with one task."""
    task = {"componentRef": {"name": "comp"}, "taskInfo": {"name": "a"}, **task}
    return canonical(
        {
            "pipelineInfo": {"name": "p"},
            "root": {
                "dag": {"tasks": {"a": task}},
                "inputDefinitions": {"parameters": {"where": {"parameterType": "STRING"}}},
            },
            "components": {"comp": {"executorLabel": EXECUTOR}},
            "deploymentSpec": {"executors": {EXECUTOR: executor}},
        }
    )


def importer(**uri) -> dict:
    return {"importer": {"artifactUri": uri, "typeSchema": {"schemaTitle": "system.Dataset"}}}


@pytest.mark.parametrize(
    ("uri", "is_right"),
    [
        ("/data/a.csv", True),
        ("file:///data/a.csv", True),
        ("https://host/v1/projects/p/locations/l/models/5", True),
        ("/data/a:b://c", True),
        ("http://[half", True),
        ("gs://bucket/a.csv", False),
        ("s3://bucket/a.csv", False),
        ("minio://bucket/a.csv", False),
        ("bq://project.data.table", False),
    ],
)
def test_an_importer_needs_local_files(uri, is_right):
    by_parameter = {"inputs": {"parameters": {"uri": {"componentInputParameter": "where"}}}}
    by_value = {"inputs": {"parameters": {"uri": {"runtimeValue": {"constant": uri}}}}}
    runtime = importer(runtimeParameter="uri")
    for problem in (
        problem_of(spec_of(importer(constant=uri))),
        problem_of(spec_of(runtime, **by_value)),
        problem_of(spec_of(runtime, **by_parameter), where=uri),
    ):
        assert (f"a: it imports {uri}" in problem) != is_right
    assert problem_of(spec_of(runtime, **by_parameter)) == "", "not known before the run"


@pytest.mark.parametrize(
    ("executor", "problem"),
    [
        ({"container": {"image": "i", "command": PYTHON}}, ""),
        ({"container": {"image": "i", "command": [OLD_PYTHON]}}, ""),
        (
            {"container": {"image": "i", "command": ["echo"]}},
            "image i; start the service with --containers to run it, or with --host-commands",
        ),
        ({"container": {"image": "i"}}, "image i; start the service with --containers"),
        ({"resolver": {}}, "executor type resolver"),
        ({"customJob": {"customJob": {}}}, "executor type customJob"),
        (
            {"container": {"image": "i", "command": [*PYTHON, "{{$.cost}}"]}},
            "unknown placeholder {{$.cost}}",
        ),
        (
            {"container": {"image": "i", "command": [*PYTHON, "{{$.json_escape[2]}}"]}},
            "unknown placeholder {{$.json_escape[2]}}",
        ),
        (
            {
                "container": {
                    "image": "i",
                    "command": [*PYTHON, "{{$}} {{$x}} {{$.inputs.artifacts['a'].path}}"],
                    "env": [{"name": "A", "value": "{{$.pipeline_job_name}}{{$.nothing}}"}],
                }
            },
            "unknown placeholder {{$.nothing}}",
        ),
    ],
)
def test_the_error_names_an_unsupported_executor(executor, problem):
    found = problem_of(spec_of(executor))
    lines = found.splitlines()[1:]
    assert len(lines) == bool(problem)
    assert all(line.startswith("  a: ") and problem in line for line in lines)


def test_with_containers_an_image_is_run():
    spec = spec_of({"container": {"image": "i", "command": ["echo"]}})
    check_tasks(spec, {}, runs_containers=True)


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        ({"command": ["echo"], "args": ["a"]}, ""),
        ({"command": ["python", "-c", "1"]}, ""),
        ({"command": ['{"IfPresent": {"InputName": "a", "Then": ["echo"]}}']}, ""),
        ({"command": ["jq-of-an-image"]}, "this machine has not its program"),
        ({"command": ["python3", "-m", "kfp.dsl.executor_main"]}, "this machine has not its"),
        ({"args": ["a"]}, "this machine has not its program"),
    ],
)
def test_with_host_commands_a_program_of_this_machine_is_run(container, problem):
    found = problem_of(spec_of({"container": {"image": "i", **container}}), is_host=True)
    assert bool(found) == bool(problem)
    assert problem in found
