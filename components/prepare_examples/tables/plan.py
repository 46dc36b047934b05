"""The plan of which records go to which shards; it depends on the input, not on the workers."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from components.prepare_examples.parts import Part, as_parts
from components.prepare_examples.tables.reading.files import (
    CSV,
    STREAM,
    Scan,
    TableFile,
    count_rows,
    scan,
)


@dataclass(frozen=True)
class Segment:
    """Bytes (CSV) or row groups (Parquet) `start` to `stop` of a file; -1 is the file's end.

    `columns` are the schema's names of the file's columns, of which the last ones have the values
    in the names of its folders.
    """

    file: TableFile
    columns: Sequence[str]
    start: int
    stop: int
    first_row: int = 0
    max_rows: int = -1

    @property
    def num_own(self) -> int:
        """The number of columns that the file has itself."""
        return len(self.columns) - len(self.file.folder_values)


@dataclass(frozen=True)
class TablePlan:
    """The parts, the digests of the input by file, and the number of rows if known."""

    parts: Sequence[Part[Segment]]
    digests: Mapping[str, str]
    num_rows: int | None


def plan_table(
    files: Sequence[TableFile],
    *,
    columns: Mapping[str, Sequence[str]],
    num_shards: int,
    digest: Callable[[TableFile], str],
    max_rows: int = 0,
) -> TablePlan:
    """Split the input into `num_shards` parts of about equal work, at the ends of records.

    A stream cannot be split: where one covers several parts, a single part writes the files of all
    of them, distributing the rows evenly. With `max_rows` only the first rows are used, as many;
    files behind them are not read.

    `columns` are the schema's names of each file's columns; `digest` returns the SHA-256 of a file
    that the plan does not need to read.
    """
    planner = _Planner(num_shards, sum(file.weight for file in files), max_rows or None)
    digests = {}
    for file in files:
        if planner.is_full:
            continue
        if file.kind == CSV:
            digests[file.path] = planner.add_csv(file, columns[file.path])
            continue
        if file.kind == STREAM:
            planner.add_stream(file, columns[file.path])
        else:
            planner.add_groups(file, columns[file.path])
        digests[file.path] = digest(file)
    return TablePlan(as_parts(planner.segments), digests, planner.num_rows)


class _Planner:
    def __init__(self, num_shards: int, total: int, rows_left: int | None) -> None:
        self._total = max(total, 1)
        self.segments: list[list[Segment]] = [[] for _ in range(num_shards)]
        self._passed = 0
        self._rows_left = rows_left
        self.num_rows: int | None = 0

    @property
    def is_full(self) -> bool:
        """True if no more rows are to be used."""
        return self._rows_left == 0

    def add_csv(self, file: TableFile, columns: Sequence[str]) -> str:
        first, last = self._part_at(0), self._part_at(file.weight - 1)
        # The first position of each part.
        starts = (
            -(-part * self._total // len(self.segments)) for part in range(first + 1, last + 1)
        )
        targets = [start - self._passed for start in starts]
        edges: Scan = scan(file, targets, max_rows=self._rows_left)
        places = [edges.cuts[0], *(edges.at(target) for target in targets), edges.cuts[-1]]
        for index, (cut, end) in enumerate(itertools.pairwise(places), start=first):
            if end.offset > cut.offset:
                segment = Segment(file, columns, cut.offset, end.offset, cut.num_rows)
                self.segments[index].append(segment)
        self._passed += file.weight
        self._count(places[-1].num_rows)
        return edges.sha256

    def add_stream(self, file: TableFile, columns: Sequence[str]) -> None:
        limit = -1 if self._rows_left is None else count_rows(file, self._rows_left)
        if limit:
            segment = Segment(file, columns, file.data_start, -1, max_rows=limit)
            self.segments[self._part_at(0)].append(segment)
        if limit < 0:
            self.num_rows = None
        self._passed += file.weight
        self._count(max(limit, 0))

    def add_groups(self, file: TableFile, columns: Sequence[str]) -> None:
        first_row, total = 0, max(sum(file.group_rows), 1)
        for group, num_rows in enumerate(file.group_rows):
            limit = -1 if self._rows_left is None else min(self._rows_left, num_rows)
            if limit:
                at = self._part_at(file.weight * first_row // total)
                segment = Segment(file, columns, group, group + 1, first_row, limit)
                self.segments[at].append(segment)
            self._count(num_rows if limit < 0 else limit)
            first_row += num_rows
        self._passed += file.weight

    def _count(self, num_rows: int) -> None:
        if self._rows_left is not None:
            self._rows_left -= num_rows
        if self.num_rows is not None:
            self.num_rows += num_rows

    def _part_at(self, position: int) -> int:
        part = (self._passed + position) * len(self.segments) // self._total
        return min(part, len(self.segments) - 1)
