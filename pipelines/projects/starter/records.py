"""workload.py for TFRecords of tf.train.Examples: features from the first records."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import (
    example_features,
    read_records,
    why_no_example,
)
from components.prepare_examples.raw_data.files import find_files
from components.prepare_examples.tables.reading.kinds import RECORDS, file_kind
from components.shared.text.value_text import first_of
from pipelines.projects.literals import SourceText, call, comment, fill, quoted
from pipelines.projects.starter.column import (
    FEATURE,
    IGNORED,
    LIST,
    LIST_SEPARATOR,
    NUMBER,
    TableColumn,
)
from pipelines.projects.starter.folder import NewFolder, check_number, workload_source
from pipelines.projects.starter.forms import TEXT, read_forms
from pipelines.projects.starter.guesses import guess_roles, leaks_of, use_keys
from pipelines.projects.starter.labels import (
    BINARY,
    CLASSES,
    MULTILABEL,
    REGRESSION,
    guess_label,
)
from pipelines.projects.starter.names import valid_names
from pipelines.projects.starter.reading import Contents
from trainer.errors import near_path

NUM_RECORDS = 1_000
MOST_FILES = 50
NUM_VALUES = 3  # of a record, that are looked at
MOST_CLASSES = 1_000
MOST_SHOWN = 8
LINE = "        {}: {},  # {}\n"
DEFAULTS = {"float32": 0.0, "int64": 0, "string": ""}
NO_TEXT = "bytes that are no text; decode them by encode_with, as with tf.io.decode_raw or _image"
UNEVEN = "its number of values differs, or it has several texts"
SEVERAL = "of one type in some records and of another in others: write one type"


@dataclass
class Seen:
    """A feature in some records: its types, its numbers of values, and the first by record."""

    dtypes: set[str] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)
    records: dict[int, list[Any]] = field(default_factory=dict)

    def column(self, name: str, declared: str, num_records: int) -> TableColumn:
        """Return the feature as a column of a table."""
        texts = {at: list(map(_text, values)) for at, values in self.records.items()}
        is_text = all(text is not None for row in texts.values() for text in row)
        unusable = "" if is_text else NO_TEXT
        [size, *others] = self.lengths
        rows = [
            LIST_SEPARATOR.join(filter(None, texts.get(at, ()))) or None
            for at in range(num_records)
        ]
        stored = "" if "string" in self.dtypes else NUMBER
        return TableColumn(
            name,
            declared,
            pa.array(rows, pa.string()),
            stored=LIST if others or size > 1 else stored,
            unusable=SEVERAL if len(self.dtypes) > 1 else unusable,
            length=size if stored and not others and size > 1 else 0,
        )

    def declaration(self, num_records: int) -> SourceText:
        """Return the declaration of a feature."""
        [dtype], [size] = self.dtypes, self.lengths
        is_missing = len(self.records) < num_records
        more = {"default_value": DEFAULTS[dtype]} if is_missing else {}
        return call("Values", dtype, *([[size]] if size > 1 else []), **more)


def start_records(sources: Sequence[str], label: str, *, kind: str = "") -> NewFolder:
    """Return the folder's content for TFRecords.

    Raises:
        DataError: a file is damaged, or has no such label, or no feature that a model can get.
    """
    patterns = tuple(map(_pattern, map(Path, sources)))
    paths = [Path(path) for pattern in patterns for path in find_files([pattern])]
    seen, num_records, bad = _read(paths)
    check_number(num_records, paths[0], "records")
    names = valid_names(sorted(seen))
    columns = [seen[name].column(name, names[name], num_records) for name in names]
    texts = {name: TEXT for name in names if "string" in seen[name].dtypes}
    read_forms(columns, texts, {","})
    target = _label(columns, label, seen, kind.title())
    features = [column for column in columns if column.name != label]
    for column in features:
        if column.unusable or (column.stored == LIST and not column.length):
            column.guess(IGNORED, seen=column.unusable or UNEVEN)
    guessed = [column for column in features if not column.role]
    guess_roles(guessed, num_records, has_key=True)  # no feature decides about the split
    for column in guessed:
        column.role = IGNORED if column.kind == "Text" else column.role
    use_keys(guessed)
    used = [column for column in features if column.role == FEATURE]
    reasons = {column.name: column.seen for column in features if column not in used}
    if not used:
        shown = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise DataError(f"{paths[0]}: no feature but {label} that a model could get; {shown}")
    names_used = [column.name for column in used]
    return NewFolder(
        workload=workload_source(
            "Records",
            title=f"Records with {first_of(names_used, MOST_SHOWN)}; the label is {label}.",
            seen=f" from the first {num_records:,} records",
            kinds=["Values", target.kind],
            arguments=[
                SourceText("    {\n"),
                *(
                    fill(
                        LINE, quoted(c.name), seen[c.name].declaration(num_records), comment(c.seen)
                    )
                    for c in used
                ),
                *(fill("        # {}\n", comment(f"{n}: {why}")) for n, why in reasons.items()),
                SourceText("    },\n"),
                fill("    label={},  # {}\n", call(target.kind, label), comment(target.seen)),
            ],
        ),
        data=patterns,
        num_examples=num_records,
        kind=target.kind,
        said=(
            *(f"left out: {count:,} records; each {why}" for why, count in bad.items()),
            *(f"{column.name}: {warning}" for column, warning in leaks_of(used, target).items()),
            *(f"{name}: left out: {why}" for name, why in reasons.items()),
        ),
    )


def _pattern(path: Path) -> str:
    """Return a file, the pattern of a folder's files that are named as records, or the folder."""
    if not path.exists():
        raise DataError(f"--records {path}: there is no such file or folder{near_path(path)}")
    usual = (str(path / name) for name in ("*.tfrecord*", "*.tfrec*", "*.records*"))
    return next((pattern for pattern in usual if glob(pattern)), str(path))


def _read(paths: Sequence[Path]) -> tuple[dict[str, Seen], int, Counter[str]]:
    for path in paths:
        if path.stat().st_size and file_kind(str(path)) != RECORDS:
            raise DataError(f"{path} holds no TFRecords; name the files, or a pattern of them")
    seen: dict[str, Seen] = {}
    chosen = paths[:: -(-len(paths) // MOST_FILES)]
    num_each = NUM_RECORDS // len(chosen)
    records = (
        record for path in chosen for record in itertools.islice(read_records(path), num_each)
    )
    num_records, reasons = 0, Counter[str]()
    for record in records:
        features = example_features(record)
        if features is None:
            reasons[why_no_example(record)] += 1
            continue
        for name, dtype, values in features:
            if values:
                own = seen.setdefault(name, Seen())
                own.dtypes.add(dtype)
                own.lengths.add(len(values))
                own.records[num_records] = values[:NUM_VALUES]
        num_records += 1
    if not num_records:
        why = f": each record {next(iter(reasons))}" if reasons else " has no records"
        raise DataError(f"{paths[0]}{why}")
    return seen, num_records, reasons


def _text(value: Any) -> str | None:
    """Return a value as text; None for bytes that are none."""
    try:
        text = value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        return None
    return text if "\0" not in text else None


def _label(
    columns: Sequence[TableColumn], name: str, seen: Mapping[str, Seen], kind: str
) -> TableColumn:
    """Return the column of the label with its guess; its type tells whether it is a number."""
    own = seen.get(name, Seen({"int64"}))
    values = {value for row in own.records.values() for value in row}
    has_numbers, has_texts = "float32" in own.dtypes, "string" in own.dtypes
    usual = BINARY if values == {0, 1} else CLASSES if own.lengths == {1} else MULTILABEL
    kind = kind or (REGRESSION if has_numbers else usual)
    contents = Contents([*columns], rows=[*range(len(columns[0].texts))])
    target = guess_label(contents, name, kind=kind)
    is_allowed = {
        REGRESSION: has_numbers,
        BINARY: values <= {0, 1},
        MULTILABEL: has_texts,
        CLASSES: has_texts or len(values) <= MOST_CLASSES,
    }
    if not is_allowed[kind]:
        raise DataError(
            f"--label {name}: records have values such as {[*values][:5]}, which are no {kind}: a"
            " Regression needs float32, Binary 0 and 1, a Multilabel texts, Classes texts or at"
            f" most {MOST_CLASSES:,} whole numbers"
        )
    return target
