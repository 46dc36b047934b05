"""One task of an earlier run, to be executed again on this machine: `trainyard step`.

The request is a pipeline of the task, with the component and the workload's code of now, and of
importers of the run's artifacts. It writes below the run's folder.
"""

import dataclasses
import json
from pathlib import Path

from components.model_version.companions import model_files
from components.run_result.settings import parameters_of
from components.shared.vertex.labels import STEP_LABEL
from components.shared.vertex.task_details import details_by_name, inputs_of
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import MODEL_GROUP, with_settings
from pipelines.errors import ResourceError
from pipelines.package.compile import compile_once
from pipelines.package.image import default_image, image_of
from pipelines.package.spec import read_package
from pipelines.places.target import Target
from pipelines.plan.earlier_tasks import component_names
from pipelines.projects.project import origin_file
from pipelines.projects.runs import default_run, find_run
from pipelines.runs.request import new_run_name, run_request
from pipelines.runs.submit import Submission
from pipelines.runs.workload_code import with_code
from trainer import Json, paths
from trainer.errors import ConfigError
from trainer.references import CODE_DIR, SNAPSHOT, VERSIONED, workload_name
from trainer.serving.digests import check_files, write_digests

TASKS = ("start", "prepare-examples", "plan-training", "evaluate")
MODEL = "model"


def plan_task(
    job: Json, task: str, *, settings: list[str], workload: str, target: Target
) -> Submission:
    """Return the request that executes a task of a run with the settings and the code of now.

    `workload` is the folder of a user's workload, "" for the one that the run came from.

    Raises:
        ConfigError: a setting or the workload is wrong, or the task does not read the setting.
        ResourceError: the task cannot be executed again.
    """
    earlier = details_of(job, task)
    before = parameters_of(job) | inputs_of(earlier)  # of `prepare`, the files of its date
    config = with_settings(RunConfig.from_parameters(before), settings)
    config = _with_code_of_now(config, workload, target.state_dir)
    config = with_code(config, target, uses_image=False)
    image = image_of(config.workload)
    any_run, packages = default_run("step", name="step"), target.state_dir / "packages"
    text = compile_once(default_image(), config=any_run, folder=packages)
    package = read_package(text, source="this source")
    component = package.spec["components"][component_names(package.spec)[task]]
    inputs = component["inputDefinitions"]["parameters"]
    _check_read(settings, inputs, task)
    values = {**before, **config.parameters(), "image": image}

    name = new_run_name(f"step-{task}")
    folder = target.run_dir(job["displayName"])
    artifacts = {key: value["artifacts"][0] for key, value in earlier["inputs"].items()}
    if MODEL in artifacts:
        links = folder / name / MODEL
        link_model(paths.local_path(artifacts[MODEL]["uri"]), links, reference=config.workload)
        artifacts[MODEL] = {**artifacts[MODEL], "uri": str(links)}
    values = {key: values[key] for key in inputs if key in values}
    spec = one_task_spec(package.spec, task, image=image, parameters=values, artifacts=artifacts)
    package = dataclasses.replace(package, spec=spec)
    request = run_request(
        package, run=name, pipeline_root=str(folder), parameters={}, labels={STEP_LABEL: task}
    )
    return Submission(run=name, package=package, config=config, request=request)


def details_of(job: Json, task: str) -> Json:
    """Return the details of a task of a run, which may have failed.

    Raises:
        ResourceError: the run has not executed it.
    """
    run, details = job["displayName"], details_by_name(job)
    if "inputs" not in details.get(task, {}):
        raise ResourceError(f"{run} has not executed {task}; see trainyard runs show {run}")
    return details[task]


def one_task_spec(spec: Json, task: str, *, image: str, parameters: Json, artifacts: Json) -> Json:
    """Return the pipeline of one task of another, with values and imported artifacts as inputs."""
    name = component_names(spec)[task]
    component = spec["components"][name]
    label = component["executorLabel"]
    container = {**spec["deploymentSpec"]["executors"][label]["container"], "image": image}
    components, executors = {name: component}, {label: {"container": container}}
    constants = {key: {"runtimeValue": {"constant": value}} for key, value in parameters.items()}
    inputs: Json = {"parameters": constants, "artifacts": {}}
    tasks: Json = {task: {"componentRef": {"name": name}, "taskInfo": {"name": task}}}
    for key, definition in component["inputDefinitions"].get("artifacts", {}).items():
        producer, kind = f"import-{key}", definition["artifactType"]
        outputs = {"artifacts": {"artifact": {"artifactType": kind}}}
        components[producer] = {"executorLabel": producer, "outputDefinitions": outputs}
        uri, metadata = {"constant": artifacts[key]["uri"]}, artifacts[key].get("metadata", {})
        importer = {"artifactUri": uri, "metadata": metadata, "typeSchema": kind}
        executors[producer] = {"importer": importer}
        tasks[producer] = {"componentRef": {"name": producer}, "taskInfo": {"name": producer}}
        output = {"producerTask": producer, "outputArtifactKey": "artifact"}
        inputs["artifacts"][key] = {"taskOutputArtifact": output}
    tasks[task] |= {"inputs": inputs, "dependentTasks": [key for key in tasks if key != task]}
    return {
        **{key: spec[key] for key in ("pipelineInfo", "schemaVersion", "sdkVersion")},
        "components": components,
        "deploymentSpec": {"executors": executors},
        "root": {"dag": {"tasks": tasks}},
    }


def link_model(model_dir: Path, folder: Path, *, reference: str) -> None:
    """Write a folder with links to a model's files, without what runs keep beside them.

    So an evaluation neither takes nor replaces the earlier one. A description that needs the code
    of a user's folder gets the code of now.

    Raises:
        ResourceError: there is no model.
        InputError: a file differs from its digest.
    """
    from components.model_version.saved_model import DESCRIPTION  # these import NumPy
    from trainer.workloads.description import needs_code

    check_files(str(model_dir))
    files = model_files(model_dir)
    if DESCRIPTION not in files:
        raise ResourceError(f"the run's model is no longer in {model_dir}")
    for name, path in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(path.absolute())
    description = json.loads(files[DESCRIPTION].read_text(encoding="utf-8"))
    if "reference" in description and needs_code(description):
        (folder / DESCRIPTION).unlink()
        text = json.dumps({**description, "reference": reference})
        (folder / DESCRIPTION).write_text(text, encoding="utf-8")
    write_digests(str(folder), files)


def _with_code_of_now(config: RunConfig, folder: str, state_dir: Path) -> RunConfig:
    reference = config.workload
    if versioned := VERSIONED.fullmatch(reference):
        reference = versioned["name"]
    elif SNAPSHOT.fullmatch(Path(reference).name):
        origin = origin_file(state_dir / CODE_DIR / Path(reference).name)
        folder = folder or (origin.read_text(encoding="utf-8") if origin.is_file() else ".")
        reference = find_run(folder).workload
        if workload_name(reference) != config.name:
            raise ConfigError(
                f"{folder} is not the folder of {config.name}; give --workload FOLDER"
            )
    return config.replace(workload=reference)


def _check_read(settings: list[str], inputs: Json, task: str) -> None:
    for setting in settings:
        group = setting.partition("=")[0].partition(".")[0]
        if ("train" if group == MODEL_GROUP else group) not in inputs:
            raise ConfigError(f"--set {setting}: {task} reads only {', '.join(sorted(inputs))}")
