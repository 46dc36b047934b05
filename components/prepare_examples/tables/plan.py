"""The plan of which records go to which shards; it depends on the input, not on the workers."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from components.prepare_examples.parts import Part, as_parts
from components.prepare_examples.tables.reading.files import (
    CSV,
    STREAM,
    TableFile,
    count_rows,
    scan,
)


@dataclass(frozen=True)
class Segment:
    """Bytes (CSV) or row groups (Parquet) `start` to `stop` of a file; -1 is the file's end."""

    file: TableFile
    start: int
    stop: int
    first_row: int = 0
    max_rows: int = -1


@dataclass(frozen=True)
class TablePlan:
    """The parts, the digests of the input by file, and the number of rows if known."""

    parts: Sequence[Part[Segment]]
    digests: Mapping[str, str]
    num_rows: int | None


@dataclass(frozen=True)
class _Segments:
    """Segments of a file by the positions in its work, and its number of rows if known."""

    by_position: Sequence[tuple[int, Segment]]
    num_rows: int | None
    sha256: str = ""


def plan_table(
    files: Sequence[TableFile],
    *,
    num_shards: int,
    digest: Callable[[TableFile], str],
    max_rows: int = 0,
) -> TablePlan:
    """Split the input into `num_shards` parts of about equal work, at the ends of records.

    A stream cannot be split: where one covers several parts, a single part writes the files of all
    of them, distributing the rows evenly. With `max_rows` only the first rows are used, as many;
    files behind them are not read.

    `digest` returns the SHA-256 of a file that the plan does not need to read.
    """
    total = max(sum(file.weight for file in files), 1)
    inputs: list[list[Segment]] = [[] for _ in range(num_shards)]
    digests: dict[str, str] = {}
    passed, num_rows = 0, list[int | None]()
    for file in files:
        rows_left = max_rows - sum(filter(None, num_rows)) if max_rows else None
        if rows_left == 0:
            break
        # The first positions of the parts that begin in the file.
        starts = (-(-part * total // num_shards) - passed for part in range(num_shards))
        targets = [start for start in starts if 0 < start < file.weight]
        segments = _segments(file, targets, rows_left)
        for position, segment in segments.by_position:
            part = (passed + position) * num_shards // total
            inputs[min(part, num_shards - 1)].append(segment)
        digests[file.path] = segments.sha256 or digest(file)
        passed += file.weight
        num_rows.append(segments.num_rows)
    is_known = None not in num_rows
    return TablePlan(as_parts(inputs), digests, sum(filter(None, num_rows)) if is_known else None)


def _segments(file: TableFile, targets: Sequence[int], rows_left: int | None) -> _Segments:
    if file.kind == CSV:
        sha256, cuts = scan(file, targets, max_rows=rows_left)
        ranges = zip([0, *targets], itertools.pairwise(cuts), strict=True)
        segments = [
            (position, Segment(file, cut.offset, end.offset, cut.num_rows))
            for position, (cut, end) in ranges
            if end.offset > cut.offset
        ]
        return _Segments(segments, cuts[-1].num_rows, sha256)
    if file.kind == STREAM:
        if rows_left is None:
            return _Segments([(0, Segment(file, file.data_start, -1))], None)
        limit = count_rows(file, rows_left)
        segment = Segment(file, file.data_start, -1, max_rows=limit)
        return _Segments([(0, segment)] if limit else [], limit)
    segments, first_row, total = [], 0, max(sum(file.group_rows), 1)
    for group, num_rows in enumerate(file.group_rows):
        limit = -1 if rows_left is None else min(rows_left - first_row, num_rows)
        if limit > 0 or rows_left is None:
            position = file.weight * first_row // total
            segments.append((position, Segment(file, group, group + 1, first_row, limit)))
        first_row += num_rows
    return _Segments(segments, first_row if rows_left is None else min(rows_left, first_row))
