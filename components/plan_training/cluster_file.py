"""Reads a cluster file in any of its spellings, and writes a cluster in any of them.

- our short form: `strategy`, `workers`, `machine` … (spellings/short.py)
- Vertex AI's `workerPoolSpecs` (spellings/vertex.py)
- AI Platform Training's `trainingInput` (spellings/legacy.py)
- TF_CONFIG, for a cluster that was started by hand (spellings/tf_config.py)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.plan_training import shape
from components.plan_training.checks import Names, check
from components.plan_training.cluster_spec import ClusterSpec
from components.plan_training.findings import Findings
from components.plan_training.shape import Shape
from components.plan_training.spellings import legacy, short, tf_config, vertex
from components.plan_training.spellings.yaml_file import read_yaml
from trainer.errors import ClusterError


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """One way to write a cluster.

    Attributes:
        keys: Those by which a file in this spelling is known.
        names: What its messages call the fields of a Shape.
    """

    title: str
    keys: tuple[str, ...]
    read: Callable[[Mapping[Any, Any], Findings], dict[str, Any]]
    write: Callable[[Shape], dict[str, Any]]
    names: Names = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClusterFile:
    """A cluster file that has been read; `warnings` say what to know before it is used.

    `hosts` are those of a TF_CONFIG.
    """

    path: Path
    spelling: str
    spec: ClusterSpec
    warnings: tuple[str, ...]
    hosts: tuple[str, ...] = ()


SPELLINGS = {
    "short": Spelling(title="short form", keys=shape.KEYS, read=short.read, write=short.write),
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
        write=legacy.write,
        names=legacy.NAMES,
    ),
    "tf_config": Spelling(
        title="TF_CONFIG",
        keys=tf_config.KEYS,
        read=tf_config.read,
        write=tf_config.write,
        names=tf_config.NAMES,
    ),
}


def load_cluster(path: Path) -> ClusterFile:
    """Reads and checks a cluster file.

    Raises:
        ClusterError: it cannot be used; `problems` names them all, with field, value and what is
            allowed.
        OSError: it cannot be read.
    """
    return parse_cluster(read_yaml(path), path=path)


def parse_cluster(values: Any, *, path: Path = Path("-")) -> ClusterFile:
    """Checks the content of a cluster file; see `load_cluster`."""
    if not isinstance(values, Mapping):
        given = "empty" if values is None else f"a {type(values).__name__}"
        raise ClusterError(f"it is {given}; it must hold keys and values, as `workers: 2`")
    name = _spelling_of(values)
    spelling, findings = SPELLINGS[name], Findings()
    fields = spelling.read(values, findings)
    check(Shape(**fields), findings, names=spelling.names)
    findings.raise_errors()
    return ClusterFile(
        path=path,
        spelling=name,
        spec=ClusterSpec(**fields),
        warnings=tuple(findings.warnings),
        hosts=tuple(tf_config.addresses(values)) if name == "tf_config" else (),
    )


def _spelling_of(values: Mapping[Any, Any]) -> str:
    keys = {vertex.camel_case(key) if "_" in str(key) else key for key in map(str, values)}
    keys |= set(map(str, values))
    found = {name: [key for key in one.keys if key in keys] for name, one in SPELLINGS.items()}
    named = {name: found_keys for name, found_keys in found.items() if found_keys}
    if len(named) > 1:
        mixed = " and ".join(
            f"{keys_[0]} ({SPELLINGS[name].title})" for name, keys_ in named.items()
        )
        raise ClusterError(f"it mixes spellings: {mixed}; keep to one of them")
    return next(iter(named), _guess(keys))


def _guess(keys: set[str]) -> str:
    """The spelling of a file that has none of the keys, for the best message."""
    if "jobSpec" in keys:
        raise ClusterError("jobSpec: give what is below it, with workerPoolSpecs at the top")
    if "scaleTier" in keys:
        raise ClusterError("scaleTier is at the top; it belongs below trainingInput:")
    return "short"
