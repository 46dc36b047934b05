"""Cluster files in any of their spellings.

- the short form: `strategy`, `workers`, `machine` … (ClusterSpec)
- Vertex AI's `workerPoolSpecs` (spellings/vertex.py)
- AI Platform Training's `trainingInput` (spellings/legacy.py)
- TF_CONFIG, for a cluster that is started by hand (spellings/tf_config.py)
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.plan_training.findings import Findings, camel_case
from components.plan_training.shape import (
    COUNT_KEYS,
    HAS_ERRORS,
    KEYS,
    NAMES,
    ClusterSpec,
    Names,
    warnings_of,
)
from components.plan_training.spellings import legacy, tf_config, vertex
from components.shared.text.yaml_text import YamlError, read_yaml_file
from trainer import Json
from trainer.cluster.roles import STRATEGIES
from trainer.config.settings import SettingsError, refusals
from trainer.errors import ClusterError


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """A way to write a cluster.

    Attributes:
        keys: the keys at the top of a file that identify the spelling.
        read: returns the fields of a Shape.
        write: returns the content of a file; None for a spelling that is only read.
        names: what a file in this spelling calls the fields of a Shape, for messages.
    """

    title: str
    keys: tuple[str, ...]
    read: Callable[[Mapping[Any, Any], Findings], Json]
    write: Callable[[ClusterSpec], Json] | None = None
    names: Names = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClusterFile:
    """A cluster file with its warnings; a TF_CONFIG has `hosts` as well."""

    path: Path
    spelling: str
    spec: ClusterSpec
    warnings: tuple[str, ...]
    hosts: tuple[str, ...] = ()


TPU = re.compile(r"\b(?:BASIC_TPU|cloud_tpu|TPU_V\w+|ct\w+-hightpu-\w+)\b")
SPELLINGS = {
    "short": Spelling(
        title="short form",
        keys=KEYS,
        read=lambda values, _: dict(values),
        write=ClusterSpec.to_dict,
    ),
    "vertex": Spelling(
        title="Vertex AI's workerPoolSpecs",
        keys=vertex.KEYS,
        read=vertex.read,
        write=vertex.write,
        names=vertex.NAMES,
    ),
    "legacy": Spelling(
        title="AI Platform's trainingInput",
        keys=legacy.KEYS,
        read=legacy.read,
        names=legacy.NAMES,
    ),
    "tf_config": Spelling(
        title="TF_CONFIG",
        keys=tf_config.KEYS,
        read=tf_config.read,
        names=tf_config.NAMES,
    ),
}


def load_cluster(path: Path) -> ClusterFile:
    """Return a cluster file, checked.

    Raises:
        ClusterError: it cannot be used; `problems` has the field, the value and what is allowed
            for each reason.
        OSError: it cannot be read.
    """
    return parse_cluster(read_yaml(path), path=path)


def parse_cluster(values: Any, *, path: Path = Path("-")) -> ClusterFile:
    """Return the cluster that the content of a file describes; see `load_cluster`."""
    if not isinstance(values, Mapping):
        kind = "empty" if values is None else f"a {type(values).__name__}"
        raise ClusterError(f"it is {kind}; it must hold keys and values, as `workers: 2`")
    if tpu := TPU.search(str(values)):
        raise ClusterError(
            f"{tpu[0]} is a TPU, which needs TensorFlow's TPUStrategy; the trainer has"
            f" {', '.join(STRATEGIES)}, for CPUs and GPUs"
        )
    name = _find_spelling(values)
    spelling, findings = SPELLINGS[name], Findings()
    fields = spelling.read(values, findings)
    context = {NAMES: spelling.names, HAS_ERRORS: bool(findings.errors)}
    try:
        with refusals(ClusterSpec):
            spec = ClusterSpec.model_validate(fields, context=context)
    except SettingsError as error:
        problems = zip(error.keys, error.problems, strict=True)
        findings.errors += [_renamed(key, problem, spelling.names) for key, problem in problems]
    findings.raise_errors()
    return ClusterFile(
        path=path,
        spelling=name,
        spec=spec,
        warnings=(*findings.warnings, *warnings_of(spec, spelling.names)),
        hosts=tuple(tf_config.read_hosts(values)) if name == "tf_config" else (),
    )


def _renamed(key: str, problem: str, names: Names) -> str:
    """Return a problem with the file's name of a field, instead of `cluster.workers`."""
    field = key.removeprefix(f"{ClusterSpec.group}.")
    roles = {own: role for role, own in COUNT_KEYS.items()}
    _, _, of_role = field.partition("machines.")
    own, _, kind = of_role.partition(".")
    named = f"{kind}.{roles[own]}" if own in roles else f"{field}.chief"
    return problem.replace(key, names.get(field) or names.get(named) or field, 1)


def _find_spelling(values: Mapping[Any, Any]) -> str:
    """Return the spelling that the keys of a file belong to; without any, the short form."""
    keys = set(map(str, values)) | {camel_case(str(key)) for key in values}
    used = {
        name: own_keys
        for name, spelling in SPELLINGS.items()
        if (own_keys := [key for key in spelling.keys if key in keys])
    }
    if len(used) > 1:
        mixed = " and ".join(
            f"{own_keys[0]} ({SPELLINGS[name].title})" for name, own_keys in used.items()
        )
        raise ClusterError(f"it mixes spellings: {mixed}; use one of them")
    if not used and "jobSpec" in keys:
        raise ClusterError("jobSpec: give its content, with workerPoolSpecs at the top")
    if not used and "scaleTier" in keys:
        raise ClusterError("scaleTier is at the top; it belongs below trainingInput:")
    return next(iter(used), "short")


def read_yaml(path: Path) -> Any:
    """Return the content of a file.

    Raises:
        ClusterError: it is not YAML, has aliases, or has a key twice; names the line.
        OSError: it cannot be read.
    """
    try:
        return read_yaml_file(path)[0]
    except YamlError as error:
        raise ClusterError(str(error)) from error
