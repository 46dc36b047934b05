"""The description of a workload in a model's folder: what serving needs, without the user's code.

    {"workload": NAME, "reference": REFERENCE, "labels": [...], "facts": {...},
     "declaration": {"type": "Table", "features": [{"type": "Number", "name": "age"}, ...], ...},
     "aliases": {"NAME IN FILES": "age"}, "hooks": ["postprocess"],
     "decision": {"temperature": 1.3, "threshold": 0.31, ...}}

The graph has the encoding; the declaration has the names, types and limits of the fields of a
request. Without a declaration, and for hooks, the workload is loaded from its reference: code of
the description's author, unless `is_own_code`.
"""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from trainer import Json
from trainer.references import BUILT_IN
from trainer.workloads.base import Workload
from trainer.workloads.declarations import features, labels
from trainer.workloads.encoding.decoding import Decoding
from trainer.workloads.image_folder import ImageFolder
from trainer.workloads.loading import is_own_code, load_workload
from trainer.workloads.records import Records, Values
from trainer.workloads.table import Table

_TYPES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        *(features.Number, features.Category, features.Text, features.Image),
        *(features.Timestamp, features.TimePart),
        Values,
        *(labels.Binary, labels.Classes, labels.Multilabel, labels.Regression),
    )
}
_WORKLOADS: Mapping[str, type[Workload]] = {
    "Table": Table,
    "ImageFolder": ImageFolder,
    "Records": Records,
}
# Fields that requests need, or files of rows to predict; the others are for preparing and training.
_NEEDED = (
    *("features", "label", "weight", "crosses"),
    *(field.name for field in dataclasses.fields(Decoding)),
    *("key", "missing", "header", "raw_inputs"),
)
_HOOKS = ("postprocess",)


def describe(workload: Workload) -> Json:
    """Return the description of an adapted workload, for JSON."""
    description: Json = {
        "workload": workload.name,
        "labels": list(workload.labels),
        "facts": workload.facts(),
    }
    if workload.reference != workload.name:
        description["reference"] = workload.reference
    if type(workload).__name__ in _WORKLOADS:
        description["declaration"] = _as_json(workload, only=_NEEDED)
    if aliases := getattr(workload, "aliases", None):
        description["aliases"] = dict(aliases)
    if workload.intended_use:
        description["intended_use"] = workload.intended_use
    if hooks := [name for name in _HOOKS if getattr(workload, name, None) is not None]:
        description["hooks"] = hooks
    return description


class UntrustedCodeError(ValueError):
    """A description names code that is not the user's own."""


def read_description(content: Json, *, trusts_code: bool = False, beside: str = "") -> Workload:
    """Return the workload of a description; its label has the threshold that was chosen.

    `beside` is the reference of the caller's own workload, see `is_own_code`.

    Raises:
        UntrustedCodeError: the description needs code that is neither trusted nor own.
        KeyError, TypeError, ValueError: it is not a description, or names a workload that cannot
            be loaded.
    """
    workload = _read_workload(content, trusts_code=trusts_code, beside=beside)
    threshold = content.get("decision", {}).get("threshold")
    if threshold is None:
        return workload
    decided = copy.copy(workload)
    label = workload.label.with_threshold(float(threshold))
    object.__setattr__(decided, "label", label)  # declared workloads are frozen
    return decided


def _read_workload(content: Json, *, trusts_code: bool, beside: str) -> Workload:
    name: str = content["workload"]
    reference: str = content.get("reference") or name
    if name in BUILT_IN and reference == name:
        return load_workload(name).with_facts(content["facts"])
    if needs_code(content):
        if not trusts_code:
            check_code(content, beside=beside)
        return load_workload(reference).with_facts(content["facts"])
    declaration = dict(content["declaration"])
    kind = _WORKLOADS[declaration.pop("type")]
    fields = {key: _from_json(value) for key, value in declaration.items()}
    if "aliases" in content:  # not in the declaration: a column may be called `type`
        fields["aliases"] = content["aliases"]
    if kind is Records or "raw_inputs" in fields:  # they need a model, but serving does not use it
        fields["model"] = lambda inputs: inputs
    return kind(**fields, name=name, reference=reference).with_facts(content["facts"])


def check_code(content: Json, *, beside: str = "") -> None:
    """Check that a description needs no code but the user's own, without loading it.

    Raises:
        KeyError, TypeError: it is not a description.
        UntrustedCodeError: it needs other code; the message has the reference.
    """
    reference = str(content.get("reference") or content["workload"])
    if not needs_code(content) or is_own_code(reference, beside=beside):
        return
    purpose = f"hooks {content['hooks']}" if content.get("hooks") else "declaration"
    raise UntrustedCodeError(
        f'"reference": {reference!r} names Python code (for its {purpose}) that is not of your own'
        " runs, and would run with your rights; read it, and give --trust-code if you trust its"
        " author"
    )


def needs_code(content: Json) -> bool:
    """Return whether the workload of a description is loaded from its reference."""
    return bool(content.get("hooks")) or "declaration" not in content


def _as_json(value: Any, *, only: tuple[str, ...] = ()) -> Any:
    """Return a declaration as JSON: its type, and the fields that differ from the default."""
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    if not dataclasses.is_dataclass(value):
        return value
    fields = {"type": type(value).__name__}
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        is_needed = field.name in only if only else not callable(content)
        if is_needed and content != field.default:
            fields[field.name] = _as_json(content)
    return fields


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_from_json, value))
    if not isinstance(value, dict):
        return value
    fields = {name: _from_json(item) for name, item in value.items() if name != "type"}
    return _TYPES[value["type"]](**fields) if isinstance(value.get("type"), str) else fields
