"""Files and results of a part of a table or of records, and the sum of all parts."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from components.prepare_examples.output.manifest import splits_of_entries
from components.prepare_examples.output.quarantine import json_lines
from components.prepare_examples.split_rule import Hashes, SplitRule
from components.prepare_examples.statistics import numbers
from components.prepare_examples.statistics.states import Statistic
from components.prepare_examples.tfrecords.records import RecordFile, record_file
from components.prepare_examples.tfrecords.shards import MOST_KEYS, SPLITS, shard_file
from components.prepare_examples.tfrecords.table_encoder import frame_records
from trainer import Json

Input = TypeVar("Input")


@dataclass
class Tally:
    """Numbers of rows: each is written, quarantined, unlabelled, filtered, outside or repeated.

    Attributes:
        filtered: rows outside the period.
        outside: rows in no split, by the reason.
        headers: rows that repeat the header of their file.
        repeated: rows that repeat another one with the same picture.
        quarantined: bad rows by column.
        zones: converted times by `COLUMN ZONE`.
        labels: rows by the value of a binary label.
    """

    read: int = 0
    written: int = 0
    filtered: int = 0
    unlabelled: int = 0
    headers: int = 0
    repeated: int = 0
    outside: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    zones: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        """Add the numbers of other rows."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)


def row_counts(tally: Json) -> Json:
    """Return the manifest's numbers of rows or records: those read, and what became of them."""
    more = {
        "outside": sum(tally["outside"].values()),
        "unlabelled": tally["unlabelled"],
        "repeated_headers": tally["headers"],
        "repeated_pictures": tally["repeated"],
    }
    return {
        "read": tally["read"],
        "written": tally["written"],
        "quarantined": sum(tally["quarantined"].values()),
        "filtered": tally["filtered"],
        **{name: count for name, count in more.items() if count},
    }


@dataclass
class Part(Generic[Input]):
    """The work of one call: for each of `shards`, one file of each split."""

    shards: list[int]
    inputs: list[Input]


def as_parts(inputs: Sequence[list[Input]]) -> tuple[Part[Input], ...]:
    """Return parts from the inputs of each shard; one without any joins the part before it."""
    parts: list[Part[Input]] = []
    for number, own in enumerate(inputs):
        if own or not parts:
            parts.append(Part([number], own))
        else:
            parts[-1].shards.append(number)
    return tuple(parts)


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """Options of writing examples, the same for every part."""

    schema: Any  # a TableSchema or a RecordSchema
    rule: SplitRule
    num_shards: int
    compression: str = "GZIP"


@dataclass(frozen=True)
class PartResult:
    """The entries of a part's files, the statistics of each split's features, and the tally."""

    shards: Sequence[Json]
    quarantine: Sequence[Json]
    statistics: Mapping[str, Mapping[str, Statistic]]
    tally: Tally


@dataclass
class _SplitFiles:
    """Files of one split, which get its examples in turn.

    `keys` has the hashes of each file's examples, unless they are many.
    """

    files: dict[str, RecordFile]
    statistics: dict[str, Statistic]
    num_examples: int = 0
    keys: dict[str, str] = field(default_factory=dict)

    def add(self, records: pa.Array, keys: Hashes | None) -> None:
        for number, (name, file) in enumerate(self.files.items()):
            own = slice((number - self.num_examples) % len(self.files), None, len(self.files))
            file.write(frame_records(records[own]))
            if keys is not None and self.num_examples <= MOST_KEYS:
                self.keys[name] = self.keys.get(name, "") + keys[own].tobytes().hex()
        self.num_examples += len(records)

    def entries(self, split: str) -> Iterator[Json]:
        """Yield the manifest's entries of the files, which must be closed."""
        for number, (name, file) in enumerate(self.files.items()):
            num_examples = len(range(number, self.num_examples, len(self.files)))
            keys = {"keys": self.keys[name]} if name in self.keys else {}
            entry = {"split": split, "file": name, "num_examples": num_examples}
            yield entry | keys | file.digests()


@dataclass
class PartFiles:
    """Open files of a part: for each of its shards one of each split, and one of bad rows."""

    splits: Mapping[str, _SplitFiles]
    rule: SplitRule
    side: Path
    stack: contextlib.ExitStack
    bad_rows: RecordFile | None = None  # opened for the first one
    tally: Tally = field(default_factory=Tally)

    def write(
        self,
        columns: Mapping[str, pa.Array],
        records: pa.Array,
        *,
        path: str,
        values: pa.Array | None,
        hashes: Hashes | None,
        groups: Hashes | None,
    ) -> None:
        """Write examples of a file, already serialised as records, to the files of their splits.

        The other arguments are those of SplitRule.numbers.
        """
        rule = self.rule
        numbers = rule.numbers(len(records), file=path, values=values, hashes=hashes, groups=groups)
        for number in np.unique(numbers[numbers < 0]).tolist():
            self.tally.outside[rule.reason(number)] += int((numbers == number).sum())
        for number, split in enumerate(self.splits.values()):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                for name, statistic in split.statistics.items():
                    statistic.add(columns[name].take(pa.array(rows)))
                split.add(records.take(pa.array(rows)), rule.keys(hashes, rows))
                self.tally.written += len(rows)

    def refuse(self, rows: Sequence[Json]) -> None:
        """Write bad rows to their file, a JSON object per line, and count them."""
        if not rows:
            return
        if self.bad_rows is None:
            self.bad_rows = self.stack.enter_context(record_file(self.side, compression=""))
        self.bad_rows.write(json_lines(rows))
        self.tally.quarantined.update(row["column"] for row in rows)

    def result(self) -> PartResult:
        """Return the result of the part, whose files must be closed."""
        quarantine = []
        if self.bad_rows is not None:
            num_bad = self.tally.quarantined.total()
            digests = self.bad_rows.digests()
            quarantine = [{"file": self.side.name, "num_rows": num_bad, **digests}]
        return PartResult(
            shards=[entry for name, split in self.splits.items() for entry in split.entries(name)],
            quarantine=quarantine,
            statistics={name: split.statistics for name, split in self.splits.items()},
            tally=self.tally,
        )


@contextlib.contextmanager
def open_part(shards: Sequence[int], folder: Path, options: PartOptions) -> Iterator[PartFiles]:
    """Open the files of a part's shards, which appear under their names when the context ends."""
    num_shards, compression = options.num_shards, options.compression
    side = folder / f"quarantine-{shards[0]:05d}-of-{num_shards:05d}.jsonl"
    with contextlib.ExitStack() as stack:
        splits = {}
        for split in SPLITS:
            names = [shard_file(split, shard, num_shards, compression) for shard in shards]
            contexts = {name: record_file(folder / name, compression=compression) for name in names}
            files = {name: stack.enter_context(context) for name, context in contexts.items()}
            splits[split] = _SplitFiles(files, options.schema.new_statistics())
        yield PartFiles(splits, options.rule, side, stack)


def finish(results: Iterable[PartResult]) -> Json:
    """Return the sum of all parts' results, in any order, with the files in order."""
    parts = sorted(results, key=lambda part: str(part.shards[0]["file"]))
    tally = Tally()
    for part in parts:
        tally.add(part.tally)
    shards = _in_order(entry for part in parts for entry in part.shards)
    return {
        "splits": splits_of_entries(shards),
        "quarantine": _in_order(entry for part in parts for entry in part.quarantine),
        "tally": vars(tally),
        "statistics": {
            split: {
                "num_examples": sum(s["num_examples"] for s in shards if s["split"] == split),
                "features": _summaries(split, [part.statistics[split] for part in parts]),
            }
            for split in SPLITS
        },
    }


def _in_order(entries: Iterable[Json]) -> list[Json]:
    return sorted(entries, key=lambda entry: str(entry["file"]))


def _summaries(split: str, parts: Sequence[Mapping[str, Statistic]]) -> Json:
    first, *others = parts
    for other in others:
        for name, statistic in first.items():
            statistic.merge(other[name])  # type: ignore[arg-type]
    for statistic in first.values():
        if (
            isinstance(statistic, numbers.Numbers)
            and statistic.type == "FLOAT"
            and split != "train"
        ):
            statistic.num_listed = numbers.NUM_FLOATS
    return {name: statistic.summary() for name, statistic in first.items()}
