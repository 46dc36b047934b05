"""JSON schemas by which editors complete and check run.yaml, cluster files and schedule files.

The comment `# yaml-language-server: $schema=PATH` names one to the YAML extension of VS Code.
"""

import copy
import json
from pathlib import Path

from components.plan_training.shape import ClusterSpec
from pipelines.config.run_config import RunConfig
from pipelines.config.schedule_settings import ScheduleSettings
from trainer import Json
from trainer.config.settings import schema_of

RUN, CLUSTER, SCHEDULE = "run", "cluster", "schedule"
# Keys at the top of the spellings of other products, whose content is not described.
_OTHER_SPELLINGS = ("workerPoolSpecs", "trainingInput", "cluster")


def editor_schema(kind: str) -> Json:
    """Return the schema of a file of a kind: RUN, CLUSTER or SCHEDULE."""
    model = {RUN: RunConfig, CLUSTER: ClusterSpec, SCHEDULE: ScheduleSettings}[kind]
    schema = copy.deepcopy(schema_of(model))
    known = schema.get("$defs", {})
    if "Machine" in known:  # its type alone, as a text
        known["Machine"] = {"anyOf": [{"type": "string"}, known["Machine"]]}
    other = [{"type": "object", "required": [key]} for key in _OTHER_SPELLINGS]
    if kind == CLUSTER:
        return {"$defs": schema.pop("$defs"), "anyOf": [schema, *other]}
    if kind == RUN:
        settings = schema["properties"]
        del settings["workload"], schema["required"]
        known["TrainSettings"]["properties"].pop("model_settings")
        settings["model"] = {"type": "object", "description": "settings of the workload's model"}
        path = {"type": "string", "description": "path of a cluster file"}
        settings["cluster"] = {"anyOf": [path, {"$ref": "#/$defs/ClusterSpec"}, *other]}
        known["PrepareSettings"]["properties"]["files"]["anyOf"].append({"type": "object"})
    return schema


def schema_text(kind: str) -> str:
    """Return the content of a schema's file."""
    return json.dumps(editor_schema(kind), indent=1, ensure_ascii=False) + "\n"


def write_schemas(folder: Path, *kinds: str) -> None:
    """Write the schemas of kinds to a new or existing folder, as KIND.json."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        (folder / f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")
