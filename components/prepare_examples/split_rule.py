"""The split of each row, image or record: the only code that decides it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.files import find_files
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.settings.patterns import duration
from components.prepare_examples.tfrecords.row_splits import split_numbers
from components.prepare_examples.tfrecords.shards import SPLITS, check_ratios
from components.shared.text.value_text import time_text
from trainer import Json
from trainer.workloads.base import Workload
from trainer.workloads.declarations.split import DURATION, FILES, HASH, Split
from trainer.workloads.declarations.written import plain_text

TRAIN = SPLITS.index("train")
NO_VALUE, NO_PART, OTHER_SPLIT = -1, -2, -3  # instead of the number of a split
HOUR_SECONDS, DAY_SECONDS = 3_600, 86_400

MOST_WAITING = 1_000_000  # groups in memory before those seen are merged

Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Times = tuple[pa.Array, Hashes | None]  # seconds of rows, and the hashes of their groups


@dataclass(frozen=True, kw_only=True)
class SplitRule:
    """A declared rule, with what the files tell about it.

    Attributes:
        split: the declaration.
        ratios: the share of each split, of the rows that a hash decides.
        hashed: what the hash covers, in words.
        named: the splits that the declaration or the files name; a hash takes the others from
            train.
        files: the split of each file, by its path.
        zone: the time zone of a rule by time, else "".
        starts: the first second of each split of a rule by time, once the times are known.
        groups: columns whose rows stay in one split of a rule by time.
        first_splits: hash and first split of each group that has rows in several splits.
        given: the rule of files whose names or folders tell their splits, in words.
    """

    split: Split
    ratios: Mapping[str, float]
    hashed: str
    named: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""
    starts: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    first_splits: tuple[Hashes, Numbers] | None = None
    given: str = ""

    @property
    def column(self) -> str:
        """The column that decides the split, or "" if a hash or the files do."""
        return "" if self.split.by in (HASH, FILES) else self.split.by

    @property
    def is_hashed(self) -> bool:
        """True if a hash decides the split of some rows."""
        return not {*SPLITS[1:]} <= {*self.named}

    @property
    def words(self) -> str:
        """The rule in words; windows that move with the data keep them."""
        shares = ", ".join(f"{name} {share:.4g}" for name, share in self.ratios.items())
        by_hash = f"by a hash of {self.hashed}: {shares}"
        if self.given:
            return f"{self.given} {by_hash}"
        if self.split.by == HASH:
            return by_hash
        parts = self.split.parts
        if self.split.by == FILES:
            parts = {name: tuple(Path(path).name for path in parts[name]) for name in parts}
        shown = "; ".join(f"{name} {', '.join(values)}" for name, values in parts.items())
        zone = f" (time of {self.zone})" * bool(self.zone)
        groups = f"; rows of one {' and '.join(self.groups)} in one split" * bool(self.groups)
        rest = f"; others {by_hash}" * self.is_hashed
        return f"by {self.split.by}{zone}: {shown}{groups}{rest}"

    @property
    def moments(self) -> dict[str, str]:
        """The first moment of each split of a rule by time, as texts that sort by time."""
        return {name: _moment(seconds) for name, seconds in self.starts.items()}

    def to_json(self, outside: Mapping[str, int] | None = None) -> Json | None:
        """Return the manifest's entry of a declared rule, with the first moment of each split."""
        if self.split.by == HASH:
            return None
        return {
            **self.split.to_json(),
            **({"starts": self.moments} if self.starts else {}),
            **({"outside": dict(outside)} if outside else {}),
        }

    def numbers(
        self,
        num_rows: int,
        *,
        file: str = "",
        values: pa.Array | None = None,
        hashes: Hashes | None = None,
        groups: Hashes | None = None,
    ) -> Numbers:
        """Return the number in SPLITS of each row of a file, or why it is in none, see `reason`.

        The values are of `column`; for a rule by time, int64 seconds. Hashes of the rows are
        needed if `is_hashed`, hashes of their groups if there are `groups`.
        """
        if self.starts:
            assert values is not None
            numbers = self._by_time(values)
        elif self.column:
            assert values is not None
            numbers = self._by_value(values)
        else:
            numbers = np.full(num_rows, SPLITS.index(self.files.get(file, "train")), np.int64)
        if groups is not None:
            numbers = self._in_first_split(numbers, groups)
        if hashes is not None and self.is_hashed:
            hashed = split_numbers(hashes, self.ratios)
            is_named = np.isin(hashed, [SPLITS.index(name) for name in self.named])
            numbers = np.where((numbers == TRAIN) & ~is_named, hashed, numbers)
        return numbers

    def keys(self, hashes: Hashes | None, rows: Any) -> Hashes | None:
        """Return the hashes of rows if any row may judge: neither columns nor files tell it."""
        is_any = self.split.by == HASH and "test" not in self.named
        return hashes[rows] if hashes is not None and is_any else None

    def reason(self, number: int) -> str:
        """Return why rows with a number below 0 are in no split, in words."""
        if number == NO_VALUE:
            return f"without {self.column}"
        if number == OTHER_SPLIT:
            return f"of a {' and '.join(self.groups)} that an earlier split has"
        if self.starts:
            return f"with a {self.column} before {_moment(self.starts['train'])}"
        return f"with another {self.column}"

    def with_times(self, blocks: Iterable[Times], *, end: int | None = None) -> "SplitRule":
        """Return a rule by time with its windows, and with the groups that lie in several.

        The blocks have the times of all rows, with the hashes of their groups if there are any.
        The last window ends before the second `end`, by default with the rows' last day, or hour.

        Raises:
            DataError: no row has a time, windows overlap, or nothing is left for training.
        """
        merged, waiting = _spans([]), list[pa.Table]()
        for times, hashes in blocks:
            groups = np.zeros(len(times), np.uint64) if hashes is None else hashes
            table = pa.table({"group": groups, "first": times, "last": times})
            waiting.append(_spans([table.filter(pc.is_valid(times))]))
            if sum(len(table) for table in waiting) > MOST_WAITING:
                merged, waiting = _spans([merged, *waiting]), []
        merged = _spans([merged, *waiting]).sort_by("group")
        if not len(merged):
            raise DataError(f"split: no row with a label has a {self.column}; split by another one")
        first, last = pc.min(merged["first"]).as_py(), pc.max(merged["last"]).as_py()
        rule = replace(self, starts=self._starts(first, last, end))
        ends = [rule._by_time(merged[name].combine_chunks()) for name in ("first", "last")]
        has_several = ends[0] != ends[1]
        groups = merged["group"].to_numpy()[has_several]
        return replace(rule, first_splits=(groups, np.maximum(ends[0], TRAIN)[has_several]))

    def _starts(self, first: int, last: int, end: int | None) -> dict[str, int]:
        parts = {name: values[0] for name, values in self.split.parts.items()}
        unit = HOUR_SECONDS if any(text.endswith("h") for text in parts.values()) else DAY_SECONDS
        until = -(-(last + 1) // unit) * unit if end is None else end
        starts: dict[str, int] = {}
        for name in reversed([name for name in SPLITS if name in parts]):
            start = _start(parts[name], until)
            if start >= until:
                raise DataError(
                    f"split: the windows overlap: {name} begins at {_moment(start)}, and the next"
                    f" split or the end of the data is {_moment(until)}; give {name} an earlier day"
                )
            starts[name] = until = start
        name = next(name for name in SPLITS[1:] if name in starts)
        if first >= starts[name]:
            raise DataError(
                f"split: no row is left for training: {self.column} is from {_moment(first)} to"
                f" {_moment(last)}, and {name} begins at {_moment(starts[name])}; use shorter"
                " windows, or more data"
            )
        return {name: starts[name] for name in SPLITS if name in starts}

    def _by_time(self, seconds: pa.Array) -> Numbers:
        names = [name for name in SPLITS if name in self.starts and name != "train"]
        times = np.asarray(seconds.fill_null(0), np.int64)
        windows = np.searchsorted([self.starts[name] for name in names], times, side="right")
        numbers: Numbers = np.array([TRAIN, *map(SPLITS.index, names)])[windows]
        if "train" in self.starts:
            numbers[times < self.starts["train"]] = NO_PART
        numbers[np.asarray(seconds.is_null())] = NO_VALUE
        return numbers

    def _by_value(self, values: pa.Array) -> Numbers:
        parts = self.split.parts
        known = {plain_text(text): SPLITS.index(name) for name in parts for text in parts[name]}
        rest = NO_PART if "train" in parts else TRAIN
        encoded = values.dictionary_encode()
        codes = [known.get(_text(value), rest) for value in encoded.dictionary.to_pylist()]
        places = np.asarray(encoded.indices.fill_null(-1))
        numbers: Numbers = np.array([*codes, NO_VALUE], np.int64)[places]
        return numbers

    def _in_first_split(self, numbers: Numbers, groups: Hashes) -> Numbers:
        assert self.first_splits is not None
        hashes, firsts = self.first_splits
        if not len(hashes):
            return numbers
        places = np.searchsorted(hashes, groups).clip(max=len(hashes) - 1)
        is_later = (hashes[places] == groups) & (numbers > firsts[places])
        return np.where(is_later, OTHER_SPLIT, numbers)


def split_of(workload: Workload, options: PrepareOptions) -> Split:
    """Return the declared rule of a run: its options', or else the workload's."""
    declared: Split = getattr(workload, "split", Split())
    return options.declared_split or declared


def rule_of(
    split: Split, options: PrepareOptions, *, hashed: str, paths: Sequence[str] = ()
) -> SplitRule:
    """Return the rule of a run, whose hash covers what `hashed` says.

    Raises:
        DataError: a file is in two splits, or in none.
    """
    files = _split_of_files(split, paths) if split.by == FILES and paths else {}
    return SplitRule(
        split=split,
        ratios=check_ratios(options.ratios),
        hashed=hashed,
        named=("train", *split.parts) if split.by != HASH else (),
        files=files,
    )


def _split_of_files(split: Split, paths: Sequence[str]) -> dict[str, str]:
    """Return the split of each file; a pattern without a folder is one of their names."""
    splits: dict[str, str] = {}
    for pattern, name in {p: name for name, part in split.parts.items() for p in part}.items():
        own = {path for path in paths if fnmatchcase(Path(path).name, pattern)}
        if "/" in pattern:
            own = {*paths} & {*find_files([str(local_path(pattern))])}
        if not own:
            raise DataError(f"split.{name}: {pattern} matches no file of the run")
        for path in sorted(own):
            if splits.setdefault(path, name) != name:
                raise DataError(f"split: the file {path} is in {splits[path]} and {name}")
    unnamed = [path for path in paths if path not in splits]
    if unnamed and "train" in split.parts:
        raise DataError(f"split: the file {unnamed[0]} is in no split; name it in files.train")
    return splits


def _spans(tables: Sequence[pa.Table]) -> pa.Table:
    none = pa.array([], pa.int64())
    empty = pa.table({"group": none.cast(pa.uint64()), "first": none, "last": none})
    spans = pa.concat_tables([empty, *tables]).group_by("group")
    merged = spans.aggregate([("first", "min"), ("last", "max")])
    return merged.rename_columns({"first_min": "first", "last_max": "last"})


def _start(text: str, until: int) -> int:
    """Return the first second of a window that ends with `until`, or of its first day."""
    if DURATION.fullmatch(text):
        return until - int(duration(text).total_seconds())
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def _moment(seconds: int) -> str:
    return time_text(seconds, form="%Y-%m-%d %H:%M:%S").removesuffix(" 00:00:00")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return f"{value:.15g}" if isinstance(value, float) else plain_text(str(value))
