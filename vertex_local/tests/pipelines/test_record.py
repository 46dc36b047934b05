import pytest

from vertex_local.errors import ApiError
from vertex_local.pipelines.record import Leaf, canonical, check_tasks, leaves, parameters

pytestmark = pytest.mark.fast

DECLARED = {
    "required": {"parameterType": "STRING"},
    "number": {"parameterType": "NUMBER_INTEGER"},
    "ratio": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.5},
    "shape": {"parameterType": "STRUCT", "defaultValue": {}},
    "optional": {"parameterType": "STRING", "isOptional": True},
}
SPEC = {"root": {"inputDefinitions": {"parameters": DECLARED}}}


def test_parameters_are_converted_to_their_types():
    given = {"required": '{"a": 1}', "number": 3.0, "ratio": 1}
    values = parameters(SPEC, given)
    assert values == {"required": '{"a": 1}', "number": 3, "ratio": 1, "optional": None}
    assert isinstance(values["number"], int)


@pytest.mark.parametrize(
    ("config", "facts"),
    [
        ({}, ['"required"', "STRING", "no default", "parameterValues"]),
        ({"required": "a"}, ['"number"', "NUMBER_INTEGER", "no default"]),
        ({"required": "a", "number": 1, "nubmer": 2}, ['"nubmer"', "number, optional"]),
        ({"required": 5, "number": 1}, ['"required"', "5", "must be STRING"]),
        ({"required": "a", "number": 1.5}, ['"number"', "1.5", "must be NUMBER_INTEGER"]),
        ({"required": "a", "number": True}, ['"number"', "True", "must be NUMBER_INTEGER"]),
        ({"required": "a", "number": 1, "shape": "{}"}, ['"shape"', "'{}'", "must be STRUCT"]),
    ],
)
def test_wrong_parameters_are_refused_by_name(config, facts):
    with pytest.raises(ApiError) as error:
        parameters(SPEC, config)
    assert [fact for fact in facts if fact not in error.value.message] == []
    assert error.value.code == 400


def task(component: str, **fields) -> dict:
    return {"componentRef": {"name": component}, **fields}


def pipeline() -> dict:
    always = {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    components = {
        "comp-group": {"dag": {"tasks": {"step": task("comp-a", taskInfo={"name": "A step"})}}},
        "comp-a": {"executorLabel": "exec-a"},
    }
    return {
        "pipelineInfo": {"name": "p"},
        "deploymentSpec": {"executors": {"exec-a": {"container": {"image": "i"}}}},
        "components": components,
        "root": {
            "dag": {
                "tasks": {
                    "group": task("comp-group"),
                    "exit": task("comp-a", dependentTasks=["group"], triggerPolicy=always),
                    "stubborn": task("comp-a", dependentTasks=["exit"], triggerPolicy=always),
                }
            }
        },
    }


def test_leaves_are_the_tasks_with_an_executor():
    found = {leaf.key: leaf for leaf in leaves(canonical(pipeline()))}
    assert found == {
        "comp-group/step": Leaf("comp-group/step", "step", "A step"),
        "/exit": Leaf("/exit", "exit", "exit", is_exit=True),
        "/stubborn": Leaf("/stubborn", "stubborn", "stubborn"),
    }


def test_a_dangling_reference_is_refused():
    spec = pipeline()
    spec["root"]["dag"]["tasks"]["exit"]["componentRef"]["name"] = "comp-b"
    with pytest.raises(ApiError, match=r"root\.dag\.tasks\.exit\.componentRef .*comp-b"):
        canonical(spec)
    del (spec := pipeline())["deploymentSpec"]
    with pytest.raises(ApiError, match=r"components\.comp-a\.executorLabel"):
        canonical(spec)


def test_tasks_that_wait_for_one_another_are_refused():
    spec = pipeline()
    spec["root"]["dag"]["tasks"]["group"]["dependentTasks"] = ["stubborn"]
    with pytest.raises(ApiError, match=r"root\.dag\.tasks wait for one another: .*→"):
        canonical(spec)
    spec["root"]["dag"]["tasks"]["group"]["dependentTasks"] = ["nobody"]
    with pytest.raises(ApiError, match=r"root\.dag\.tasks\.group refers to 'nobody'"):
        canonical(spec)


def test_a_pipeline_that_contains_itself_is_refused():
    spec = pipeline()
    spec["components"]["comp-group"]["dag"]["tasks"]["again"] = task("comp-group")
    with pytest.raises(ApiError, match=r"group/again: it contains itself"):
        check_tasks(canonical(spec), {}, runs_containers=True)


def executors_of(spec: dict) -> dict:
    return spec["deploymentSpec"]["executors"]


@pytest.mark.parametrize(
    "executor",
    ["text", 5, {"container": "text"}, {"importer": {"artifactUri": "a"}}, {"containr": {}}],
    ids=str,
)
def test_an_invalid_executor_is_refused(executor):
    spec = pipeline()
    executors_of(spec)["exec-a"] = executor
    with pytest.raises(ApiError, match=r"executors\.exec-a is not an executor"):
        canonical(spec)


@pytest.mark.parametrize("executors", [1.5, "text", [1], True], ids=str)
def test_executors_that_are_no_object_are_refused(executors):
    spec = pipeline()
    spec["deploymentSpec"]["executors"] = executors
    with pytest.raises(ApiError, match=r"deploymentSpec\.executors is not an object"):
        canonical(spec)


def test_executors_may_be_in_snake_case_or_camel_case():
    spec = pipeline()
    executors_of(spec)["exec-a"] = {"importer": {"artifact_uri": {"constant": "gs://b"}}}
    assert executors_of(canonical(spec)) == {
        "exec-a": {"importer": {"artifactUri": {"constant": "gs://b"}}}
    }


def test_a_component_without_an_implementation_is_refused_by_the_check():
    spec = pipeline()
    spec["components"]["comp-a"] = {}
    with pytest.raises(ApiError, match=r"stubborn: .*executor type none"):
        check_tasks(canonical(spec), {}, runs_containers=True)
