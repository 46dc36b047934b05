"""The open files of a split, which get its examples in turn, and their statistics."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.prepare_examples.statistics.states import Statistic
from components.prepare_examples.tfrecords.records import RecordFile, record_file
from components.prepare_examples.tfrecords.shards import MOST_KEYS, SPLITS, limit_keys, shard_file
from components.prepare_examples.tfrecords.table_encoder import frame_records
from trainer import Json

Keys = NDArray[np.uint64] | None


@dataclass
class SplitFiles:
    """Files of one split; until `publish` they have partial names.

    `keys` has the hashes of each file's examples, unless they are many.
    """

    paths: list[Path]
    files: list[RecordFile]
    statistics: dict[str, Statistic]
    num_examples: int = 0
    keys: dict[int, str] = field(default_factory=dict)

    def add(self, columns: Mapping[str, pa.Array], records: pa.Array, keys: Keys = None) -> None:
        """Write serialised examples, and count the columns that have statistics.

        `keys` are hashes, equal for examples that must stay in one split.
        """
        for name, statistic in self.statistics.items():
            statistic.add(columns[name])
        count = len(self.files)
        for number, file in enumerate(self.files):
            own = slice((number - self.num_examples) % count, None, count)
            file.write(frame_records(records[own]))
            if keys is not None and self.num_examples <= MOST_KEYS:
                self.keys[number] = self.keys.get(number, "") + keys[own].tobytes().hex()
        self.num_examples += len(records)

    def publish(self, split: str) -> list[Json]:
        """Rename the files, which must be closed; return their entries for the manifest."""
        entries = []
        for number, (path, file) in enumerate(zip(self.paths, self.files, strict=True)):
            os.replace(partial_path(path), path)
            num_examples = len(range(number, self.num_examples, len(self.files)))
            entry: Json = {"split": split, "file": path.name, "num_examples": num_examples}
            if number in self.keys:
                entry["keys"] = self.keys[number]
            entries.append({**entry, **file.digests()})
        return entries


def published(splits: Mapping[str, SplitFiles]) -> list[Json]:
    """Rename the files of all splits; return their entries for the manifest."""
    return limit_keys(entry for name, split in splits.items() for entry in split.publish(name))


def open_splits(
    stack: contextlib.ExitStack,
    shards: Sequence[int],
    *,
    folder: Path,
    num_shards: int,
    compression: str,
    new_statistics: Callable[[], dict[str, Statistic]],
) -> dict[str, SplitFiles]:
    """Open the files of some shards of each split; leaving the stack closes them."""
    splits = {}
    for split in SPLITS:
        paths = [folder / shard_file(split, at, num_shards, compression) for at in shards]
        files = [
            stack.enter_context(record_file(partial_path(path), compression=compression))
            for path in paths
        ]
        splits[split] = SplitFiles(paths, files, new_statistics())
    return splits


def partial_path(path: Path) -> Path:
    """Return the path of a file that is not complete."""
    return path.with_name(f".{path.name}.partial")
