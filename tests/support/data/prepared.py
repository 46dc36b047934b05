"""Content of a folder of prepared examples."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer import Json


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def quarantined(folder: Path) -> list[Json]:
    """Return the records of the quarantine, in order."""
    files = sorted(folder.glob("quarantine-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@dataclass(frozen=True)
class Prepared:
    """Prepared examples of small data."""

    folder: Path
    manifest: Json

    @property
    def rows(self) -> dict[str, int]:
        """The numbers of rows; those that are 0 are left out."""
        return {name: count for name, count in self.manifest["rows"].items() if count}

    @property
    def counts(self) -> list[int]:
        """The numbers of examples of train, eval and test."""
        return [split["num_examples"] for split in self.manifest["splits"].values()]

    @property
    def shards(self) -> dict[str, bytes]:
        """The bytes of each file of examples."""
        return {name: data for name, data in files_of(self.folder).items() if ".tfrecord" in name}

    @property
    def quarantine(self) -> list[Json]:
        """The records of the quarantine, in the order of their rows."""
        return sorted(quarantined(self.folder), key=lambda entry: entry["row"])

    def records(self, split: str = "*") -> list[bytes]:
        """Return the serialized examples of a split, or of all."""
        import tensorflow as tf

        files = sorted(map(str, self.folder.glob(f"{split}-*.tfrecord*")))
        kind = self.manifest["compression"]
        return list(tf.data.TFRecordDataset(files, kind).as_numpy_iterator()) if files else []

    def examples(self, split: str = "*") -> list[dict[str, list[Any]]]:
        """Return the lists of each example's features, of a split or of all."""
        import tensorflow as tf

        examples = map(tf.train.Example.FromString, self.records(split))
        return [
            {
                name: list(getattr(feature, kind).value)
                for name, feature in example.features.feature.items()
                if (kind := feature.WhichOneof("kind"))
            }
            for example in examples
        ]

    def values(self, name: str, split: str = "*") -> Collection[Any]:
        """Return each example's first value of a feature, None where it is missing."""
        return [example.get(name, [None])[0] for example in self.examples(split)]

    def splits(self, name: str) -> list[list[Any]]:
        """Return the values of a feature in train, eval and test, each in order."""
        return [sorted(self.values(name, split)) for split in ("train", "eval", "test")]

    def statistics(self, split: str = "train") -> Json:
        """Return the statistics of a split."""
        found: Json = json.loads((self.folder / "statistics.json").read_text())
        return found["splits"][split]

    @property
    def report(self) -> str:
        """The page about the data."""
        return (self.folder / "report.html").read_text()
