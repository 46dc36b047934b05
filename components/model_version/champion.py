"""The champion, the promoted default version of a model, and a trained model beside it."""

from dataclasses import dataclass
from pathlib import Path

from components.errors import StepError
from components.model_version.companions import (
    COMPANIONS,
    model_files,
    read_companion,
    read_digests,
)
from components.model_version.decisions import stop_of
from components.model_version.registry import (
    DEFAULT,
    find_model,
    is_candidate,
    list_versions,
    version_name,
    was_promoted,
    with_alias,
)
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import MODEL_LABEL, label_of
from components.shared.vertex.resource_name import ResourceName
from trainer import Json, paths
from trainer.serving.digests import (
    COPY_AGAIN,
    check_files,
    combined,
    file_digest,
)

DIGEST_DIGITS = 32
FINGERPRINT = "fingerprint.pb"


@dataclass(frozen=True, kw_only=True)
class Champion:
    """The default version of a model and the folder of its files; both "" without one.

    `digest` is that of its label, "" of a version that another program has registered.
    """

    version: str = ""
    model_uri: str = ""
    digest: str = ""

    @classmethod
    def from_record(cls, version: Json) -> "Champion":
        """Return a version of the registry."""
        return cls(
            version=version_name(version).name,
            model_uri=version.get("artifactUri", ""),
            digest=label_of(version, MODEL_LABEL),
        )


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
    return Champion.from_record(version) if version and was_promoted(version) else Champion()


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
    return Champion.from_record(version_record) if version_record else Champion()


def _facts(evaluation: Json) -> Json:
    """Return what `record_evaluation` has noted; {} for the evaluation of another program."""
    metadata = evaluation.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A trained model beside the registry.

    Attributes:
        parent: resource name of the model that it would be a version of, "" for a new one.
        known_version: the version that is the same model, "" for a new one.
        is_default: True if that is the promoted default version.
        champion: the version to compare with: the promoted default version, or, if the model is
            the same, the one that it was compared with before.
        stop: why a person's decision does not allow to promote it (`decisions.stop_of`), or "";
            the default version needs no promotion.
    """

    digest: str
    parent: str
    known_version: str
    champion: Champion
    is_default: bool = False
    stop: str = ""

    @property
    def words(self) -> str:
        """The older version that is the same model, in words; "" for another or a new one."""
        if self.is_default or not self.known_version:
            return ""
        number = ResourceName.from_version_name(self.known_version).version
        return f"the model is that of version {number}"


def find_standing(api: VertexApi, display_name: str, model_dir: Path) -> Standing:
    """Look a trained model up among the versions of a display name."""
    digest = model_digest(str(model_dir))
    parent = find_model(api, display_name)
    versions = list_versions(api, parent) if parent else []
    known, champion = find_known(versions, digest), champion_of(versions)
    is_default = known == champion.version != ""
    return Standing(
        digest=digest,
        parent=parent,
        known_version=known,
        champion=find_compared(api, known) if is_default else champion,
        is_default=is_default,
        stop="" if is_default else stop_of(versions, digest),
    )


def model_digest(model_uri: str) -> str:
    """Return 32 hexadecimal digits of the SHA-256 of the names and bytes of a model's files.

    The files that a run writes beside a model are left out, and TensorFlow's fingerprint, in
    which each export has another random uuid: the rest of it follows from the other files. The
    files are compared with the digests beside them; in a bucket these are taken as they are, and a
    model without any has the digest "".

    Raises:
        InputError: a file differs; has its path.
    """
    if paths.is_bucket_uri(model_uri):
        digests = read_digests(model_uri)
    else:
        folder = paths.local_path(model_uri)
        digests = check_files(str(folder)) or {
            name: file_digest(str(path)) for name, path in model_files(folder).items()
        }
    digests.pop(FINGERPRINT, None)
    return combined(digests)[:DIGEST_DIGITS] if digests else ""


def check_registered(version: Json) -> None:
    """Check that the folder of a version has the files that were registered.

    Of a model in a bucket, the files that the server loads are left to it.

    Raises:
        InputError: a file differs; has its path.
        StepError: all files are replaced by other ones.
    """
    known = Champion.from_record(version)
    for name in COMPANIONS:
        read_companion(known.model_uri, name)
    check_replaced(known)


def check_replaced(known: Champion) -> None:
    """Check that the digest of a version's files is that of its label.

    Raises:
        InputError, StepError: as `check_registered`.
    """
    digest = model_digest(known.model_uri) if known.digest and known.model_uri else ""
    if digest and digest != known.digest:
        raise StepError(
            f"{known.model_uri} has other files than version {known.version} was registered with,"
            f" by the digest in its label {MODEL_LABEL}: {COPY_AGAIN}"
        )


def find_known(versions: list[Json], digest: str) -> str:
    """Return the resource name of the version of a model with this digest, "" without one.

    Of several it is the default version, else the newest. A candidate is not known: it belongs to
    another run, whose teardown may delete it.
    """
    same = [
        record
        for record in versions
        if label_of(record, MODEL_LABEL) == digest and not is_candidate(record)
    ]
    version = with_alias(same, DEFAULT) or (same[-1] if same else None)
    return version_name(version).name if version else ""
