"""Settings of a run, and the digest of its code, from its PipelineJob."""

import re
from typing import Any
from urllib.parse import urlsplit

from components.shared.text.json_object import as_object
from components.shared.vertex.task_details import images_in
from trainer import Json, references

# Parameters that are JSON objects of settings: `train.epochs` is a key of `train`.
THRESHOLDS = "thresholds"
GROUPS = ("cluster", "train", THRESHOLDS, "gate", "prepare", "trigger", "release", "serving")
# Parameters that are not settings.
PLACES = ("project", "location")
WEBHOOK = "on_failure_url"
# Forms of its value: the address itself, which is stored with the run, or where it is to be found.
READABLE_ADDRESS = r"https?://[^\s/]+(?:/\S*)?"
VARIABLE = r"env:[A-Za-z_][A-Za-z0-9_]*"
SECRET = r"projects/[^/\s]+/secrets/[^/\s]+/versions/[^/\s]+"
WORKLOAD = "workload"
WHOLE = "NUMBER_INTEGER"  # a parameter's type
# Settings of the workload's model, which travel in `train`.
MODEL_PREFIX = "model."
SOURCE_DIGEST = re.compile(r":src-([0-9a-f]{12})")


def settings_of(job: Json) -> dict[str, Any]:
    """Return the settings of a run, as `settings_in`."""
    return settings_in(parameters_of(job))


def settings_in(parameters: Json) -> dict[str, Any]:
    """Return parameters of a run by name, keys of a JSON object as `train.epochs`.

    A webhook's URL is without its path, which is often a secret. The workload is its name, also
    where the parameter is the path of a snapshot, NAME-DIGEST.
    """
    settings: dict[str, Any] = {}
    for name, value in parameters.items():
        if name in PLACES:
            continue
        group = as_object(value) if name in GROUPS else None
        if group is not None:
            settings |= {
                key if key.startswith(MODEL_PREFIX) else f"{name}.{key}": setting
                for key, setting in sorted(_flat(name, group).items())
            }
        elif name == WORKLOAD:
            settings[name] = shown_workload(value)
        else:
            settings[name] = without_path(value) if name == WEBHOOK and value else value
    return settings


def shown_workload(reference: Any) -> str:
    """Return a workload's name: `churn` for a snapshot's path `/…/code/churn-0123456789ab`."""
    text = str(reference)
    return references.workload_name(text) if references.code_digest(text) else text


def project_digest(job: Json) -> str:
    """Return the digest of a user's code that a run uses; "" for a workload of this source."""
    return references.code_digest(str(parameters_of(job).get(WORKLOAD, "")))


def parameters_of(job: Json) -> dict[str, Any]:
    """Return the parameters of a run, with the pipeline's defaults; of KFP's 0.0 the integer."""
    root = job.get("pipelineSpec", {}).get("root", {})
    definitions = root.get("inputDefinitions", {}).get("parameters", {})
    values = {
        name: definition["defaultValue"]
        for name, definition in definitions.items()
        if "defaultValue" in definition
    } | job.get("runtimeConfig", {}).get("parameterValues", {})
    whole = {name for name, each in definitions.items() if each.get("parameterType") == WHOLE}
    return {
        name: int(value) if name in whole and isinstance(value, float) else value
        for name, value in values.items()
    }


def code_digest(job: Json) -> str:
    """Return the digest of the source in the tag of the run's image.

    If the image has another tag, return its name.
    """
    images = images_in(job.get("pipelineSpec", {}))
    for image in images:
        if match := SOURCE_DIGEST.search(image):
            return match[1]
    return next((image for image in images if image and "/ml-pipeline/" not in image), "")


def without_path(url: Any) -> str:
    """Return a URL as `https://HOST/…`, and the place of a secret one as it is."""
    if re.fullmatch(f"{VARIABLE}|{SECRET}", str(url)):
        return str(url)
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.hostname or ''}/…"


def _flat(name: str, group: Json) -> Json:
    """Return the settings of a group; a threshold has one for each direction, as `rmse.at_most`."""
    if name != THRESHOLDS:
        return group
    values: Json = {}
    for metric, threshold in group.items():
        directions = threshold if isinstance(threshold, dict) else {"": threshold}
        values |= {
            f"{metric}.{direction}".rstrip("."): limit for direction, limit in directions.items()
        }
    return values
