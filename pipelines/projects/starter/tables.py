"""workload.py for a table: guesses of its features and label."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import find_files
from pipelines.projects.literals import SourceText, comment, fill, literal, quoted
from pipelines.projects.scripts.record import RecordedScript
from pipelines.projects.starter.column import (
    FEATURE,
    GROUP,
    IGNORED,
    KEY,
    LIST_SEPARATOR,
    TableColumn,
)
from pipelines.projects.starter.folder import NewFolder, check_number, workload_source
from pipelines.projects.starter.guesses import guess_roles, leaks_of, use_keys
from pipelines.projects.starter.labels import BINARY, CLASSES, guess_label
from pipelines.projects.starter.notes import notes_of, shared
from pipelines.projects.starter.pictures import PictureColumn, find_picture_column
from pipelines.projects.starter.reading import Contents, read_columns
from pipelines.projects.starter.recorded_table import guess_as_used, label_of, record
from pipelines.projects.starter.splits import check_classes, notes_on_split, split_of_files
from trainer import Json
from trainer.workloads.declarations.names import declared_names

NUM_INSTANCES = 2
LINE = 100


def start_table(
    patterns: Sequence[str],
    label: str,
    *,
    kind: str = "",
    positive: str = "",
    script: Path | None = None,
    header: Sequence[str] = (),
    images: str = "",
    told: Mapping[str, str] | None = None,
) -> NewFolder:
    """Return the folder's content for a table.

    `kind` and `positive` are of `guess_label`, `header` and `told` of `read_columns`. `images` is
    the folder of the pictures that the rows name.

    Raises:
        DataError: a file is no table, or there is no such label; or the rows name no pictures.
    """
    paths = find_files([str(Path(pattern)) for pattern in patterns])
    contents = read_columns(paths, header=header, told=told)
    check_number(contents.num_rows, paths[0], "rows")
    code = record(script, contents, label=label, kind=kind) if script else None
    declared = {column.declared: column.name for column in contents.columns}
    [label] = declared_names([code.label_column if code else label], contents.names, declared)
    files = split_of_files(patterns) if len(patterns) == len(paths) and not code else {}
    if code:
        target = label_of(code, contents, label, positive=positive)
    else:
        target = guess_label(contents, label, kind=kind.title(), positive=positive)
    if files and target.kind in (BINARY, CLASSES):
        check_classes(contents, target, files)
    columns = [column for column in contents.columns if column.name != label]
    picture = find_picture_column(columns, images, paths) if images else None
    if picture:
        columns.remove(picture.column)
    guessed = [*([picture.column, picture.key] if picture else ()), *columns]
    guess_roles(columns, contents.num_rows, has_key=bool(picture))
    if not picture:
        use_keys(columns)
    if code:
        for column in columns:
            guess_as_used(column, code)
    features = [column for column in guessed if column.role == FEATURE]
    if not features:
        seen = "".join(f"; {column.name}: {column.seen}" for column in columns)
        raise DataError(
            f"{paths[0]} has no column besides {label} that a model could learn from{seen}"
        )
    leaks = leaks_of([column for column in features if column.kind != "Image"], target)
    for column, warning in leaks.items():
        column.seen += f"; {warning}"
    return NewFolder(
        workload=_source(contents, guessed, target, script=code, header=header),
        data=(*patterns, *filter(None, [images])),
        splits=files,
        num_examples=contents.num_rows,
        kind=target.kind,
        instances=_instances(features, picture),
        has_recipe=not picture,
        script=code,
        said=(
            *shared(leaks.items()),
            *(picture.notes if picture else ()),
            *(notes_on_split(contents, features, files) if not code else ()),
            *notes_of(contents, [target, *columns]),
        ),
    )


def _source(
    contents: Contents,
    columns: Sequence[TableColumn],
    label: TableColumn,
    *,
    script: RecordedScript | None,
    header: Sequence[str],
) -> SourceText:
    def lines(role: str, source_of: Callable[[TableColumn], SourceText]) -> list[SourceText]:
        own = (column for column in columns if column.role == role)
        return [line for column in own for line in _with_comment(source_of(column), column)]

    features = [column for column in columns if column.role == FEATURE]
    ignored = lines(
        IGNORED, lambda c: fill("        {},", quoted(re.sub(r"([*?[])", r"[\1]", c.name)))
    )
    aliases = {
        column.name: column.declared
        for column in (label, *columns)
        if column.role != IGNORED and column.needs_alias
    }
    pairs = [fill("        {}: {},\n", *map(quoted, pair)) for pair in aliases.items()]
    return workload_source(
        "Table",
        title=f"{label.name} from {len(features)} feature{'s' * (len(features) > 1)}.",
        seen=f" from {'all' if contents.is_whole else 'the first'} {contents.num_rows:,} rows",
        kinds=[label.kind, *(column.kind for column in features)],
        arguments=[
            *(
                SourceText("    features=[\n"),
                *lines(FEATURE, lambda c: fill("        {},", c.declaration)),
                SourceText("    ],\n"),
            ),
            *_with_comment(fill("    label={},", label.declaration), label),
            *lines(KEY, lambda c: fill("    key={},", quoted(c.declared))),
            *lines(GROUP, lambda c: fill("    group_by=[{}],", quoted(c.declared))),
            *(ignored and [SourceText("    ignored=[\n"), *ignored, SourceText("    ],\n")]),
            *(pairs and [SourceText("    aliases={\n"), *pairs, SourceText("    },\n")]),
            *([fill("    header={},\n", literal([*header]))] if header else []),
        ],
        script=script,
    )


def _with_comment(line: SourceText, column: TableColumn) -> list[SourceText]:
    """Return a line with what was seen as a comment, which is before it if both are too long."""
    name = f"{column.name}; " * (column.role == FEATURE and column.needs_alias)
    shown = comment(name + column.seen)
    if len(line) + len(shown) + 4 <= LINE:
        return [fill("{}  # {}\n", line, shown)]
    indent = len(line) - len(line.lstrip())
    room = LINE - indent - 2
    cut = shown if len(shown) <= room else comment(f"{shown[: room - 1]}…")
    return [fill("{:>{}} {}\n{}\n", "#", indent + 1, cut, line)]


def _instances(features: Sequence[TableColumn], picture: PictureColumn | None) -> list[Json]:
    own = [column for column in features if column.kind != "Image"]
    instances: list[Json] = []
    for row in range(len(features[0].texts)):
        present = {
            column.name: _plain(column, row) for column in own if column.values[row].is_valid
        }
        is_whole = all(c.name in present for c in own if "is_required" in c.arguments)
        images = picture.instance(row) if picture else {}
        if is_whole and images is not None:
            instances.append(images | present)
        if len(instances) == NUM_INSTANCES:
            break
    return instances


def _plain(column: TableColumn, row: int) -> Any:
    """Return a value as a request has it."""
    text = column.values[row].as_py()
    if column.length or "separator" in column.arguments:
        items = [item.strip() for item in text.split(LIST_SEPARATOR)]
        return items if column.kind == "Category" else [float(item) for item in items]
    is_unix = column.kind == "Timestamp" and "%" not in column.arguments.get("format", "")
    if column.written is None or not (is_unix or column.kind == "Number"):
        return text
    number = column.numbers[row].as_py()
    return int(number) if number.is_integer() else number
