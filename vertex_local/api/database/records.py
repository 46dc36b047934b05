"""Check of stored records: the fields that every request to their kind needs."""

import json

from vertex_local import Json

Fields = dict[str, type]

FIELDS: dict[str, Fields] = {
    "customJobs": {"state": str, "createTime": str},
    "batchPredictionJobs": {
        "state": str,
        "createTime": str,
        "model": str,
        "modelVersionId": str,
        "outputInfo": dict,
    },
    "hyperparameterTuningJobs": {"state": str, "createTime": str, "trials": list},
    "pipelineJobs": {"state": str, "createTime": str},
    "trainingPipelines": {"state": str, "createTime": str, "trainingTaskMetadata": dict},
    "schedules": {"state": str, "createTime": str, "cron": str, "startedRunCount": str},
    "models": {"folder": str, "lastVersion": int, "aliases": dict, "labels": dict},
    "versions": {"versionId": str, "versionCreateTime": str},
    "endpoints": {"createTime": str},
}
DEPLOYED_FIELDS: Fields = {"id": str, "model": str, "modelVersionId": str, "displayName": str}


def problem_of(name: str, data: bytes) -> str:
    """Return the reason why the stored record of a resource cannot be used, or ""."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return "is not JSON"
    kind = name.rpartition("/")[0].rpartition("/")[2]
    return _missing(record, {"name": str, **FIELDS.get(kind, {})}) or _missing_deployed(record)


def _missing(record: Json, fields: Fields) -> str:
    if not isinstance(record, dict):
        return "is not a JSON object"
    wrong = [name for name, kind in fields.items() if not isinstance(record.get(name), kind)]
    return f"has no valid {wrong[0]}" if wrong else ""


def _missing_deployed(record: Json) -> str:
    items = record.get("deployedModels", [])
    is_valid = isinstance(items, list) and not any(
        _missing(item, DEPLOYED_FIELDS) for item in items
    )
    return "" if is_valid else "has no valid deployedModels"
