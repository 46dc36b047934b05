"""Results of the parts of a table or of records, and their sum."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from components.prepare_examples.statistics.states import Statistic
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer import Json


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


@dataclass(frozen=True)
class PartResult:
    """The entries of a part's files, the statistics of each split's features, and the tally."""

    shards: Sequence[Json]
    quarantine: Sequence[Json]
    statistics: Mapping[str, Mapping[str, Statistic]]
    tally: Tally


def finish(results: Iterable[PartResult]) -> Json:
    """Return the sum of all parts' results, in any order, with the files in order."""
    parts = sorted(results, key=lambda part: str(part.shards[0]["file"]))
    tally = Tally()
    for part in parts:
        tally.add(part.tally)
    return {
        "shards": _in_order(entry for part in parts for entry in part.shards),
        "quarantine": _in_order(entry for part in parts for entry in part.quarantine),
        "tally": vars(tally),
        "statistics": {
            split: _summaries([part.statistics[split] for part in parts]) for split in SPLITS
        },
    }


def _in_order(entries: Iterable[Json]) -> list[Json]:
    return sorted(entries, key=lambda entry: str(entry["file"]))


def _summaries(parts: Sequence[Mapping[str, Statistic]]) -> Json:
    first, *others = parts
    for other in others:
        for name, statistic in first.items():
            statistic.merge(other[name])  # type: ignore[arg-type]
    return {name: statistic.summary() for name, statistic in first.items()}
