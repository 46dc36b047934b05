"""KFP's messages for a step: ExecutorInput, which it reads, and ExecutorOutput, which it writes."""

import json
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.machine.files import local_path
from vertex_local.pipelines.run_state import TaskError
from vertex_local.rules import placeholders
from vertex_local.rules.values import TaskValues, typed_value

# Artifacts without a file, which Vertex AI keeps as metadata only. An empty file stands for them.
METADATA_ONLY = {
    "system.Metrics",
    "system.ClassificationMetrics",
    "system.SlicedClassificationMetrics",
}


def executor_input(component: Json, inputs: TaskValues, *, folder: str) -> Json:
    """Return KFP's ExecutorInput for a task that writes its outputs to a folder."""
    declared = component.get("inputDefinitions", {}).get("artifacts", {})
    outputs = component.get("outputDefinitions", {})
    return {
        "inputs": {
            "parameterValues": inputs.parameters,
            "artifacts": {
                name: {"artifacts": artifacts}
                for name, artifacts in inputs.artifacts.items()
                if name in declared
            },
        },
        "outputs": {
            "parameters": {
                name: {"outputFile": f"{folder}/{name}"} for name in outputs.get("parameters", {})
            },
            "artifacts": {
                name: {"artifacts": [_planned(name, definition.get("artifactType", {}), folder)]}
                for name, definition in outputs.get("artifacts", {}).items()
            },
            "outputFile": f"{folder}/executor_output.json",
        },
    }


def _planned(name: str, kind: Json, folder: str) -> Json:
    return {"name": name, "type": kind, "uri": f"{folder}/{name}", "metadata": {}}


def read_outputs(component: Json, message: Json) -> TaskValues:
    """Return the outputs that a task has written: in KFP's ExecutorOutput, and parameters as files.

    Raises:
        TaskError: An output is not of its type, or not JSON.
    """
    planned = message["outputs"]
    output_file = Path(planned["outputFile"])
    try:
        written = json.loads(output_file.read_text()) if output_file.exists() else {}
    except ValueError as error:
        raise TaskError(f"{output_file} is not the JSON of an ExecutorOutput: {error}") from None
    declared = component.get("outputDefinitions", {}).get("parameters", {})
    parameters = written.get("parameterValues", {})
    for name, file in planned["parameters"].items():
        kind = declared[name]["parameterType"]
        if Path(file["outputFile"]).is_file():
            parameters[name] = _read_parameter(name, Path(file["outputFile"]), kind)
        if name in parameters:
            try:
                parameters[name] = typed_value(name, parameters[name], kind)
            except ValueError as error:
                raise TaskError(f"its output {error}") from None
    artifacts = {}
    for name, plan in planned["artifacts"].items():
        changes = written.get("artifacts", {}).get(name, {}).get("artifacts", [{}])
        artifacts[name] = [placeholders.whole(plan["artifacts"][0] | new) for new in changes]
        for artifact in artifacts[name]:
            artifact["uri"] = str(local_path(artifact["uri"]) or artifact["uri"])
            path = Path(artifact["uri"])
            if artifact["type"].get("schemaTitle") in METADATA_ONLY and path.is_absolute():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
    return TaskValues(parameters, artifacts)


def _read_parameter(name: str, path: Path, kind: str) -> Any:
    text = path.read_text()
    if kind == "STRING":
        return text
    try:
        return json.loads(text.lower() if kind == "BOOLEAN" else text)
    except ValueError:
        raise TaskError(f"its output {name!r} is {text!r}, which is not JSON ({path})") from None
