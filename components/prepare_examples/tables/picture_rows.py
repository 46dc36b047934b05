"""The rows of a table by their pictures: repeated and contradicting ones, and unused files."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from components.prepare_examples.tables.pictures import Pictures
from components.prepare_examples.tables.plan import Segment
from components.prepare_examples.tables.reading.files import TableFile
from components.prepare_examples.tables.row_hash import hash_raw_rows
from components.prepare_examples.tables.rows import REPEATED, Block
from components.prepare_examples.tables.segments import blocks
from components.prepare_examples.tables.table_schema import TableSchema

Reasons = dict[str, dict[int, tuple[str, str]]]
NUM_SHOWN = 3


@dataclass(frozen=True)
class PictureRows:
    """Facts about the pictures of a whole table.

    Attributes:
        reasons: by file and row, the column and the reason of a row that is left out because
            another row has the same picture.
        unused: files of the folders that no row names, and those that are no images, by the reason.
    """

    num_rows: int = 0
    reasons: Reasons = field(default_factory=dict)
    unused: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def words(self) -> Iterator[str]:
        """Yield a line for each kind of loss but bad rows."""
        for reason, paths in self.unused.items():
            shown = [*paths[:NUM_SHOWN], *(["…"] if len(paths) > NUM_SHOWN else [])]
            verb = "file is" if len(paths) == 1 else "files are"
            yield f"{len(paths):,} {verb} {reason}: {', '.join(shown)}"


@dataclass(frozen=True)
class _Row:
    file: str
    number: int
    name: str
    content: int
    label: str | None


def match_rows(files: Sequence[TableFile], schema: TableSchema, pictures: Pictures) -> PictureRows:
    """Return how the rows of all files and the pictures match.

    Only if a picture is the table's key are its rows compared: equal ones count once, and others
    contradict each other.
    """
    [column, *_] = schema.images
    rows, num_rows = defaultdict[str, list[_Row]](list), 0
    for file in files:
        stop = len(file.group_rows) if file.has_groups else -1
        start = 0 if file.has_groups else file.data_start
        for first_row, block in blocks(Segment(file, start, stop), schema):
            num_rows += block.num_rows
            for row in _rows_of(block, file.path, first_row, schema):
                with contextlib.suppress(LookupError):
                    rows[pictures.find(row.name)].append(row)
    reasons: Reasons = defaultdict(dict)
    for alike in rows.values() if schema.key == column.name else ():
        labelled = [row for row in alike if row.label is not None]
        for row, reason in _left_out(labelled, schema) if labelled else ():
            reasons[row.file][row.number] = reason
    unused = {
        "named by no row": [path for path in pictures.paths if path not in rows],
        "no image": pictures.others,
    }
    return PictureRows(
        num_rows, dict(reasons), {reason: paths for reason, paths in unused.items() if paths}
    )


def _rows_of(block: Block, file: str, first_row: int, schema: TableSchema) -> Iterator[_Row]:
    [column, *_] = schema.images
    names = block.table[column.name].to_pylist()
    label = schema.label.name
    labels = block.table[label].to_pylist() if label in block.table.column_names else names
    values = {
        name: block.table[name].combine_chunks()
        for name in block.table.column_names
        if name != column.name
    }
    content = hash_raw_rows(values, {name: name for name in values}).to_pylist()
    for at, name in enumerate(names):
        if name is not None and at not in block.bad.reasons:
            number = first_row + int(block.numbers[at]) + 1
            text = None if labels[at] is None else str(labels[at])
            yield _Row(file, number, name, content[at], text)


def _left_out(alike: Sequence[_Row], schema: TableSchema) -> Iterator[tuple[_Row, tuple[str, str]]]:
    first, column = alike[0], schema.images[0].name
    if all(row.content == first.content for row in alike):
        yield from ((row, (REPEATED, f"repeats row {first.number}")) for row in alike[1:])
        return
    for row in alike:
        other = next(twin for twin in alike if twin.content != row.content)
        position = f"row {other.number}" + f" of {other.file}" * (other.file != row.file)
        differs = f"the {schema.label.name} {other.label!r}, not {row.label!r}"
        if other.label == row.label:
            differs = "other values"
        yield row, (column, f"{row.name!r} is also in {position}, with {differs}")


def mark_rows(block: Block, first_row: int, reasons: Mapping[int, tuple[str, str]]) -> None:
    """Make the rows of a block bad that are left out because of another row."""
    for at, number in enumerate(block.numbers.tolist()):
        if reason := reasons.get(first_row + number + 1):
            block.bad.put(at, *reason)
