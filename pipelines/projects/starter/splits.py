"""The split that a table suggests: by files named for it, or by a time that orders its rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.folders import GIVEN
from components.prepare_examples.tables.values.times import DAY_SECONDS, HOUR_SECONDS
from components.prepare_examples.tfrecords.shards import SPLITS
from components.shared.text.value_text import first_of
from pipelines.projects.literals import fill, quoted
from pipelines.projects.starter.column import TableColumn
from pipelines.projects.starter.forms import times_of
from pipelines.projects.starter.reading import Contents

MOST_BACK = 0.01  # of the rows are earlier than the row before, at most
FEWEST_TIMES = 20  # different times
LAST = (0.8, 0.9, 1)  # shares of the rows before the eval split, the test split and the end
MOST_SHOWN = 4
RULE = "{{by: {}, eval: {}{sign}, test: {}{sign}}}"


def split_of_files(paths: Sequence[str]) -> dict[str, str]:
    """Return the split of each file if names say it, as train.csv and test.csv do; else {}."""
    split_of_file = {}
    for path in paths:
        words = re.split(r"[^a-z]+", Path(path).name.lower())
        split_of_file[path] = next((GIVEN[word] for word in words if word in GIVEN), "train")
    splits = {*split_of_file.values()}
    return split_of_file if "train" in splits and len(splits) > 1 else {}


def check_classes(contents: Contents, label: TableColumn, files: Mapping[str, str]) -> None:
    """Raise DataError if files that do not train have classes that no file that trains has."""
    paths = [str(Path(path)) for path, split in files.items() if split == "train"]
    rows = zip(contents.paths, label.values.to_pylist(), strict=True)
    known = {value for path, value in rows if path in paths}
    if unknown := sorted({*label.ranked} - known):
        shown = first_of([*map(repr, unknown)], MOST_SHOWN)
        raise DataError(
            f"--label {label.name}: no file that trains has {shown};"
            f" write its values as they are in {paths[0]}, or leave the other files out"
        )


def notes_on_split(
    contents: Contents, columns: Sequence[TableColumn], files: Mapping[str, str]
) -> Iterator[str]:
    """Yield how the names of files split the table, or that a time could; `columns` are used."""
    if files:
        names = {s: [Path(path).name for path in files if files[path] == s] for s in SPLITS}
        shown = "; ".join(f"{split}: {', '.join(names[split])}" for split in SPLITS if names[split])
        yield f"split by the names of the files ({shown}); to mix them, write a list in files"
    for column in columns:
        if column.kind == "Timestamp" and not files and (rule := _rule_by_time(column)):
            yield (
                f"rows are ordered by {column.name}, and split by a hash: to judge the model by"
                f" later rows, as in use, write split: {rule} below prepare in run.yaml"
            )
            return


def _rule_by_time(column: TableColumn) -> str:
    """Return a rule for a split, if times rise or fall from row to row, but for a few; else ""."""
    seconds = np.asarray(times_of(column).drop_null())
    steps = np.diff(seconds)
    is_even = len(np.unique(seconds)) < FEWEST_TIMES
    if is_even or min((steps < 0).mean(), (steps > 0).mean()) > MOST_BACK:
        return ""
    spans = np.diff(np.quantile(seconds, LAST))
    unit, sign = (HOUR_SECONDS, "h") if spans[1] < DAY_SECONDS else (DAY_SECONDS, "d")
    return fill(
        RULE, quoted(column.name), *map(int, np.maximum(np.ceil(spans / unit), 1)), sign=sign
    )
