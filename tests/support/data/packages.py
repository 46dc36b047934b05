"""A compiled pipeline of one task."""

import json

from pipelines.package.spec import Package, read_package
from trainer import Json

DEFINITIONS = {
    "project": {"parameterType": "STRING"},
    "count": {"parameterType": "NUMBER_INTEGER"},
    "share": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.5},
    "is_dry": {"parameterType": "BOOLEAN", "defaultValue": False},
    "names": {"parameterType": "LIST", "isOptional": True},
    "note": {"parameterType": "STRING", "defaultValue": ""},
}


def package(definitions: Json | None = None, *, image: str = "r.example/i:1") -> Package:
    """Return the package with these parameters; default: one of each kind."""
    spec = {
        "pipelineInfo": {"name": "tiny-one"},
        "root": {
            "dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}}}},
            "inputDefinitions": {"parameters": definitions or DEFINITIONS},
        },
        "components": {"comp-a": {"executorLabel": "exec-a"}},
        "deploymentSpec": {"executors": {"exec-a": {"container": {"image": image}}}},
        "schemaVersion": "2.1.0",
    }
    return read_package(json.dumps(spec), source="tiny.yaml")
