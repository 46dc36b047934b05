"""The settings of a run, and the digests of its data and code, from its PipelineJob."""

import json
import re
from typing import Any
from urllib.parse import urlsplit

from trainer.json_types import Json

# Parameters that hold settings as one JSON object each; `train.epochs` is one of `train`.
GROUPS = ("cluster", "train", "thresholds", "prepare")
# Parameters that say where a run goes, not what it does.
PLACES = ("project", "location")
WEBHOOK = "on_failure_url"
SOURCE_DIGEST = re.compile(r":src-([0-9a-f]{12})")


def settings_of(job: Json) -> dict[str, Any]:
    """Return every parameter of a run by name, those of a group as `train.epochs`.

    A webhook's address is shown without its path, which is often a secret.
    """
    found: dict[str, Any] = {}
    for name, value in parameters_of(job).items():
        if name in PLACES:
            continue
        group = _parsed(value) if name in GROUPS else None
        if isinstance(group, dict):
            found |= {f"{name}.{key}": one for key, one in sorted(group.items())}
        else:
            found[name] = without_path(value) if name == WEBHOOK and value else value
    return found


def parameters_of(job: Json) -> dict[str, Any]:
    """Return the parameters of a run: those that were given, else the pipeline's defaults."""
    root = job.get("pipelineSpec", {}).get("root", {})
    definitions = root.get("inputDefinitions", {}).get("parameters", {})
    defaults = {
        name: _default(definition)
        for name, definition in definitions.items()
        if "defaultValue" in definition
    }
    return {**defaults, **job.get("runtimeConfig", {}).get("parameterValues", {})}


def code_digest(job: Json) -> str:
    """Return the digest of the source that the run's image is named by.

    An image with a name of its own has no digest in it; its name is returned instead.
    """
    executors = job.get("pipelineSpec", {}).get("deploymentSpec", {}).get("executors", {})
    images = [str(one.get("container", {}).get("image", "")) for one in executors.values()]
    for image in images:
        if found := SOURCE_DIGEST.search(image):
            return found[1]
    return next((image for image in images if image and "/ml-pipeline/" not in image), "")


def without_path(url: Any) -> str:
    """Return `https://HOST/…` of an address."""
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.hostname or ''}/…"


def _default(definition: Json) -> Any:
    """Return a default as it was meant: the compiler writes 0.0 for a whole number."""
    value = definition["defaultValue"]
    is_whole = definition.get("parameterType") == "NUMBER_INTEGER" and isinstance(value, float)
    return int(value) if is_whole else value


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
