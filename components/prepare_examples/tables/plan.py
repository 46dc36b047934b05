"""The plan of which records go to which shards; it depends on the input, not on the workers."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
    """The parts, the files that they read, and the number of rows if known."""

    parts: Sequence[Part[Segment]]
    files: Sequence[TableFile]
    num_rows: int | None


def plan_table(files: Sequence[TableFile], *, num_shards: int, max_rows: int = 0) -> TablePlan:
    """Split the input into `num_shards` parts of about equal work, at the ends of records.

    A stream cannot be split: where one covers several parts, a single part writes the files of all
    of them, distributing the rows evenly. With `max_rows` only the first rows are used, as many;
    files behind them are not read.
    """
    total = max(sum(file.weight for file in files), 1)
    inputs: list[list[Segment]] = [[] for _ in range(num_shards)]
    passed, num_rows, read = 0, 0, list[TableFile]()
    is_known = True
    for file in files:
        if max_rows and num_rows == max_rows:
            break
        # The first positions of the parts that begin in the file.
        starts = (-(-part * total // num_shards) - passed for part in range(num_shards))
        targets = [start for start in starts if 0 < start < file.weight]
        for position, own_rows, segment in _segments(file, targets):
            count, most = own_rows, -1
            if max_rows:
                left = max_rows - num_rows
                count = most = count_rows(file, left) if own_rows is None else min(own_rows, left)
            if count != 0:
                part = (passed + position) * num_shards // total
                inputs[min(part, num_shards - 1)].append(replace(segment, max_rows=most))
            num_rows += count or 0
            is_known = is_known and count is not None
        passed += file.weight
        read.append(file)
    return TablePlan(as_parts(inputs), read, num_rows if is_known else None)


def _segments(file: TableFile, targets: Sequence[int]) -> Iterator[tuple[int, int | None, Segment]]:
    """Yield the segments of a file with their positions in its work and, if known, their rows."""
    if file.kind == STREAM:
        yield 0, None, Segment(file, file.data_start, -1)
    elif file.kind == CSV:
        cuts = itertools.pairwise(scan(file, targets))
        for position, (cut, end) in zip([0, *targets], cuts, strict=True):
            segment = Segment(file, cut.offset, end.offset, cut.num_rows)
            yield position, end.num_rows - cut.num_rows, segment
    else:
        first_row, total = 0, max(sum(file.group_rows), 1)
        for group, num_rows in enumerate(file.group_rows):
            position = file.weight * first_row // total
            yield position, num_rows, Segment(file, group, group + 1, first_row)
            first_row += num_rows
