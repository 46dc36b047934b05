"""The champion, the promoted default version of a model, and a trained model beside it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from components.model_version.companions import model_files
from components.model_version.decisions import stop_of
from components.model_version.registry import (
    DEFAULT,
    find_model,
    list_versions,
    version_name,
    was_promoted,
    with_alias,
)
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import MODEL_LABEL
from trainer import Json

DIGEST_DIGITS = 32
FINGERPRINT = "fingerprint.pb"


@dataclass(frozen=True, kw_only=True)
class Champion:
    """The default version of a model and the folder of its files; both "" without one."""

    version: str = ""
    model_uri: str = ""


def find_champion(api: VertexApi, display_name: str) -> Champion:
    """Return the promoted default version of the model with a display name.

    A version that a run has uploaded and not promoted is no champion, even if it is the default, as
    the first version of a model always is.
    """
    model = find_model(api, display_name)
    return default_champion(api, model) if model else Champion()


def default_champion(api: VertexApi, model: str) -> Champion:
    """Return the promoted default version of the model with a resource name."""
    return champion_of(list_versions(api, model))


def champion_of(versions: list[Json]) -> Champion:
    """Return the promoted default version among the versions of a model."""
    version = with_alias(versions, DEFAULT)
    return _champion(version) if version and was_promoted(version) else Champion()


def find_compared(api: VertexApi, version: str) -> Champion:
    """Return the version that a promoted one was compared with, none if it no longer exists.

    A run that trains the same model again compares it with the same version, so its evaluation is
    in the cache.
    """
    evaluations = api.list_resources(f"{version}/evaluations")
    ours = [evaluation for evaluation in evaluations if "champion" in _facts(evaluation)]
    if not ours:
        return Champion()
    latest = max(ours, key=lambda evaluation: str(evaluation["createTime"]))
    compared = _facts(latest)["champion"]
    version_record = api.find(compared["version"]) if compared else None
    return _champion(version_record) if version_record else Champion()


def _champion(version: Json) -> Champion:
    return Champion(version=version_name(version).name, model_uri=version.get("artifactUri", ""))


def _facts(evaluation: Json) -> Json:
    """Return what `record_evaluation` has noted; {} for the evaluation of another program."""
    metadata = evaluation.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A trained model beside the registry.

    Attributes:
        parent: resource name of the model that it would be a version of, "" for a new one.
        known_version: the default version if it is the same model, else "".
        champion: the version to compare with: the promoted default version, or, if the model is
            the same, the one that it was compared with before.
        stop: why a person's decision does not allow to promote it (`decisions.stop_of`), or "".
    """

    digest: str
    parent: str
    known_version: str
    champion: Champion
    stop: str = ""


def find_standing(api: VertexApi, display_name: str, model_dir: Path) -> Standing:
    """Look a trained model up among the versions of a display name."""
    digest = model_digest(model_dir)
    parent = find_model(api, display_name)
    versions = list_versions(api, parent) if parent else []
    known = find_promoted(versions, digest)
    return Standing(
        digest=digest,
        parent=parent,
        known_version=known,
        champion=find_compared(api, known) if known else champion_of(versions),
        stop=stop_of(versions, digest),
    )


def model_digest(model_dir: Path) -> str:
    """Return 32 hexadecimal digits of the SHA-256 of the names and bytes of a model's files.

    The files that a run writes beside a model are left out, and TensorFlow's fingerprint, in
    which each export has another random uuid: the rest of it follows from the other files.
    """
    digest = hashlib.sha256()
    files = model_files(model_dir)
    files.pop(FINGERPRINT, None)
    for name, path in files.items():
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:DIGEST_DIGITS]


def find_promoted(versions: list[Json], digest: str) -> str:
    """Return the resource name of a model's promoted default version if it has this digest."""
    version = with_alias(versions, DEFAULT) or {}
    is_same = version.get("labels", {}).get(MODEL_LABEL) == digest
    return champion_of(versions).version if is_same else ""
