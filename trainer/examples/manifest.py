"""The examples folder: its manifest, statistics and checks of its files."""

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer import Json
from trainer.errors import InputError, first_line

logger = logging.getLogger(__name__)

_HASHED_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True)
class ShardFile:
    """One file of a split."""

    path: str
    num_examples: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class SplitFiles:
    """The files of train, eval or test."""

    name: str
    num_examples: int
    shards: tuple[ShardFile, ...]

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return [shard.path for shard in self.shards]

    @property
    def digest(self) -> str:
        """A digest of these examples in their order."""
        return hashlib.sha256("".join(shard.sha256 for shard in self.shards).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ExamplesFolder:
    """The contents of an examples folder."""

    workload: str
    compression: str
    splits: dict[str, SplitFiles]


def read_manifest(examples_dir: str, *, workload: str) -> ExamplesFolder:
    """Return the folder's manifest; InputError if it is invalid or of another workload."""
    folder = examples_dir.rstrip("/")
    path = f"{folder}/manifest.json"
    try:
        content = json.loads(b"".join(_read_pieces(path)))
        manifest = ExamplesFolder(
            workload=content["workload"],
            compression=content["compression"],
            splits={
                name: _parse_split(name, split, folder) for name, split in content["splits"].items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error!r}); prepare the examples again") from error
    if manifest.workload != workload:
        raise InputError(f"{path} is for the workload {manifest.workload!r}, not {workload!r}")
    return manifest


def checked_split(manifest: ExamplesFolder, name: str) -> SplitFiles:
    """Return a split after checking its files against the manifest's checksums."""
    split = manifest.splits.get(name)
    if split is None or split.num_examples < 1:
        raise InputError(f"the manifest has no examples in the split {name!r}")
    for shard in split.shards:
        _check_shard(shard, manifest.compression)
    return split


def read_statistics(split: SplitFiles) -> Json | None:
    """Return a split's features in the folder's statistics.json; None if it has none.

    The feature `label` gets the `names` of its classes if manifest.json has them.
    Folders that another program has made may lack them.
    """
    folder = split.paths[0].rpartition("/")[0]
    path = f"{folder}/statistics.json"
    try:
        content = json.loads(b"".join(_read_pieces(path)))["splits"][split.name]
        features: Json = content["features"]
        names = json.loads(b"".join(_read_pieces(f"{folder}/manifest.json"))).get("labels")
        if names and "label" in features:
            features["label"]["names"] = names
        return features if content["num_examples"] == split.num_examples else None
    except (InputError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.info("no statistics of the split %r in %s: %r", split.name, path, error)
        return None


def find_damage(shards: Iterable[ShardFile], compression: str) -> InputError | None:
    """Return an error for the first file that is damaged or too long; None if there is none."""
    for shard in shards:
        num_good, reason = _count_readable(shard.path, compression, at_most=shard.num_examples + 1)
        if num_good < shard.num_examples:
            return InputError(
                f"{shard.path} is damaged from record {num_good} on ({reason}):"
                f" {shard.num_examples - num_good} examples are unreadable; prepare the examples"
                " again"
            )
        if num_good > shard.num_examples:
            return InputError(
                f"{shard.path} holds more examples than the {shard.num_examples} of the manifest;"
                " prepare the examples again"
            )
    return None


def _read_pieces(path: str) -> Iterable[bytes]:
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            while piece := file.read(_HASHED_BYTES):
                yield piece
    except tf.errors.NotFoundError as error:
        raise InputError(f"{path} is missing; prepare the examples first") from error
    except tf.errors.OpError as error:
        raise InputError(f"{path} cannot be read: {error.message}") from error


def _check_shard(shard: ShardFile, compression: str) -> None:
    digest = hashlib.sha256()
    for piece in _read_pieces(shard.path):
        digest.update(piece)
    if digest.hexdigest() != shard.sha256:
        differs = f"{shard.path} differs from the manifest's sha256; prepare the examples again"
        raise find_damage([shard], compression) or InputError(differs)


def _count_readable(path: str, compression: str, *, at_most: int) -> tuple[int, str]:
    """Return how many records precede the first unreadable one, and why it is unreadable."""
    count = 0
    try:
        for _ in tf.data.TFRecordDataset(path, compression_type=compression).take(at_most):
            count += 1
    except tf.errors.OpError as error:
        return count, first_line(error)
    return count, "the file ends early"


def _parse_split(name: str, content: dict[str, Any], folder: str) -> SplitFiles:
    shards = tuple(
        ShardFile(
            path=f"{folder}/{shard['file']}",
            num_examples=int(shard["num_examples"]),
            sha256=shard["sha256"],
        )
        for shard in content["shards"]
    )
    for file in [shard["file"] for shard in content["shards"]]:
        if "/" in file or file in {"", ".", ".."}:
            raise ValueError(f"{file!r} is not a file name")
    counted = sum(shard.num_examples for shard in shards)
    if counted != content["num_examples"]:
        raise ValueError(f"{name}: {content['num_examples']} examples, but {counted} in its shards")
    return SplitFiles(name=name, num_examples=counted, shards=shards)
