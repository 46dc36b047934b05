"""A run that is killed between its upload and its promotion leaves what was served before it."""

import itertools
import json

import pytest
from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexModel,
)
from google_cloud_pipeline_components.v1.endpoint import ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import dsl

from components import IMAGE
from components.release.component import record_version, release_model
from components.shared.vertex.labels import CANDIDATE, STATE_LABEL
from components.teardown.component import teardown
from pipelines.dags.train_and_deploy import named
from vertex_local.pipelines import journal
from vertex_local.tests.support.kills import kill_all, kill_runner
from vertex_local.tests.support.pipeline_runs import Runs
from vertex_local.tests.support.service import (
    PROJECT_AND_LOCATION,
    SERVER_SCRIPT,
    RunningService,
    running_service,
)
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("temp_folder")

CANARY = '{"canary": [50], "canary_seconds": 0.2}'
VICTIMS = ("runner", "service", "everything")


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def make_model(  # noqa: PLR0917
    project: str,
    location: str,
    folder: str,
    server: str,
    model: dsl.Output[UnmanagedContainerModel],
    golden: dsl.Output[dsl.Artifact],
    examples: dsl.Output[dsl.Dataset],
    evaluation: dsl.Output[dsl.Artifact],
    parent_model: dsl.Output[VertexModel],
) -> str:
    import json
    import uuid
    from pathlib import Path

    from components.model_version.champion import find_standing
    from components.shared.vertex.api import connect

    (Path(folder) / "model").mkdir(exist_ok=True)
    (Path(folder) / "model" / "saved_model.pb").write_text(uuid.uuid4().hex)
    model.uri = f"{folder}/model"
    model.metadata["containerSpec"] = {
        "imageUri": "any",
        "command": ["python", server, "classes"],
        "deploymentTimeout": "60s",
    }
    prediction = {"class": 0, "probabilities": [0.75, 0.25]}
    known = {"instances": [{}], "predictions": [prediction], "labels": ["a"]}
    Path(golden.path).write_text(json.dumps(known))
    content = {"label_kind": "Binary", "labels": [], "num_examples": 8, "metrics": {}}
    content |= dict.fromkeys(("confusion", "champion", "baseline", "gain", "slices", "checks"))
    Path(evaluation.path).write_text(json.dumps(content))
    standing = find_standing(connect(project, location), "tiny", Path(model.uri))
    parent_model.metadata["resourceName"] = standing.parent
    return standing.champion.version


@dsl.pipeline(name="promotes")
def promotes(folder: str, server: str, model_name: str = "tiny"):
    """The part of the DAG from the upload on."""
    run = dsl.PIPELINE_JOB_NAME_PLACEHOLDER
    exit_task = teardown(run=run, keep_endpoint=True, **PROJECT_AND_LOCATION).set_caching_options(
        False
    )
    with dsl.ExitHandler(exit_task):
        made = make_model(folder=folder, server=server, **PROJECT_AND_LOCATION)
        uploaded = named(ModelUploadOp, "upload-model")(
            display_name="tiny",
            parent_model=made.outputs["parent_model"],
            unmanaged_container_model=made.outputs["model"],
            labels={STATE_LABEL: CANDIDATE},
            **PROJECT_AND_LOCATION,
        )
        recorded = record_version(
            model=uploaded.outputs["model"],
            evaluation=made.outputs["evaluation"],
            endpoint_name="tiny",
            state=CANDIDATE,
            verdict="passed",
            reasons="",
            run=run,
            **PROJECT_AND_LOCATION,
        )
        deployed = named(ModelDeployOp, "deploy-model")(
            model=recorded.outputs["version"],
            endpoint=recorded.outputs["endpoint"],
            dedicated_resources_machine_type=recorded.outputs["machine"],
            dedicated_resources_min_replica_count=recorded.outputs["least"],
        )
        released = release_model(
            version=recorded.outputs["Output"],
            is_known=False,
            endpoint_name="tiny",
            keep_endpoint=True,
            **{name: made.outputs[name] for name in ("model", "examples", "golden", "evaluation")},
            champion_version=made.outputs["Output"],
            thresholds="{}",
            gate="{}",
            reasons="",
            release=CANARY,
            run=run,
            **PROJECT_AND_LOCATION,
        ).after(deployed)
        for task in (made, uploaded, recorded, deployed, released):
            task.set_caching_options(False)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "has_all", [False, pytest.param(True, marks=pytest.mark.long)], ids=["once each", "all events"]
)
def test_a_run_killed_before_its_promotion_leaves_what_was_served_before_it(tmp_path, has_all):
    preload = ("--preload", "kfp.local,kfp.dsl.executor_main")
    with running_service(tmp_path / "vertex", *preload) as service:
        runs = Runs(service, tmp_path)
        spec = runs.spec(promotes)
        runs.spec = lambda _: spec  # compiles once
        parameters = {"folder": str(tmp_path), "server": str(SERVER_SCRIPT)}
        first = runs.wait(runs.submit(promotes, parameterValues=parameters))
        assert first["state"] == "PIPELINE_STATE_SUCCEEDED", first["error"]
        served, before = "1", aliases(service)
        assert served_versions(service) == {served: 100}
        for number, victim in kills(runs, first, has_all=has_all):
            job = runs.submit(promotes, parameterValues=parameters)
            await_events(runs, job, number)
            if victim == "runner":
                kill_runner(runs, job)
            else:
                service.kill() if victim == "service" else kill_all(runs.service)
                service.start()
            runs.wait(job)

            versions = aliases(service)
            [default] = [one for one, names in versions.items() if "default" in names]
            kill = (number, victim, job["name"])
            assert served_versions(service) == {default: 100}, kill
            if default == served:
                assert list(versions) == list(before), (kill, "a version is left")
            else:  # it was killed when its promotion was under way, which is then completed
                assert (versions[default], versions[served]) == (["default"], ["previous"]), kill
            summary = runs.root / job["name"].rpartition("/")[2] / "summary.json"
            told = json.loads(summary.read_text())["model_version"]
            assert told == (f"tiny@{default}" if default != served else ""), kill
            served, before = default, versions


def kills(runs: Runs, job: dict, *, has_all: bool) -> list[tuple[int, str]]:
    """Events from the upload's start to the promotion's end, each with what is killed after it.

    All events with each victim; otherwise the middles of three parts, each with another victim.
    """
    names: dict[int, str] = {}
    numbers = []
    for number, event in enumerate(journal.read(runs.files(job)), start=1):
        if "name" in event:
            names[event["id"]] = event["name"]
        if names.get(event.get("id")) in {"upload-model", "release-model"}:
            numbers.append(number)
    every = range(numbers[0], numbers[-1] + 1)
    part = len(every) // 3
    return list(
        itertools.product(every, VICTIMS)
        if has_all
        else zip(every[part // 2 :: part], VICTIMS, strict=False)
    )


def await_events(runs: Runs, job: dict, count: int) -> None:
    path = runs.files(job) / journal.FILE_NAME
    wait_until(
        lambda: path.exists() and path.read_bytes().count(b"\n") >= count,
        f"{count} events",
        poll_seconds=0.005,
    )


def aliases(service: RunningService) -> dict[str, list[str]]:
    [model] = service.do("GET", "models")["models"]
    versions = service.do("GET", f"/v1/{model['name']}:listVersions")["models"]
    return {one["versionId"]: one["versionAliases"] for one in versions}


def served_versions(service: RunningService) -> dict[str, int]:
    [endpoint] = service.do("GET", "endpoints")["endpoints"]
    split = endpoint["trafficSplit"]
    return {one["modelVersionId"]: split.get(one["id"], 0) for one in endpoint["deployedModels"]}
