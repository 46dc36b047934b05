"""workload.py for TFRecords of tf.train.Examples: features from the first records."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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
from pipelines.projects.leaks import codes_of, find_leaks
from pipelines.projects.literals import Source, call, comment, fill, quoted
from pipelines.projects.starter.folder import Start, check_number, workload_source
from pipelines.projects.starter.guesses import ID_NAME, MOST_CODES
from pipelines.projects.starter.labels import BINARY, CLASSES, MOST_CLASSES, MULTILABEL, REGRESSION
from trainer.errors import did_you_mean

NUM_RECORDS = 1_000
MOST_FILES = 50
DEFAULTS = {"float32": 0.0, "int64": 0, "string": ""}
LONG_BYTES = 256
NO_TEXT = "bytes that are no text; decode them by encode_with, as with tf.io.decode_raw or _image"


@dataclass
class Seen:
    """A feature in some records: its types, its numbers of values, and the first by record."""

    dtypes: set[str] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)
    records: dict[int, list[Any]] = field(default_factory=dict)

    @cached_property
    def values(self) -> list[Any]:
        """The first values of all records."""
        return [value for values in self.records.values() for value in values]

    @property
    def size(self) -> int | None:
        """The number of values of each record; None if it differs."""
        return min(self.lengths) if len(self.lengths) == 1 else None

    @property
    def dtype(self) -> str:
        """The type of the values, the first one of several."""
        return min(self.dtypes)

    def why_unused(self, name: str, num_records: int) -> str:
        """Return why a model cannot get the feature, or ""."""
        texts = [value for value in self.values if isinstance(value, bytes)]
        is_named = texts or ID_NAME.search(name.lower())
        is_unique = len({*self.values}) == num_records > MOST_CODES
        sizes = {*map(len, texts)}
        reasons = {
            "of one type in some records and of another in others: write one type": (
                len(self.dtypes) > 1
            ),
            f"{min(sizes)} {NO_TEXT}" if len(sizes) == 1 else NO_TEXT: (
                not all(map(_is_text, texts))
            ),
            "another value in every record: an identifier": (
                self.size == 1 and is_named and is_unique
            ),
            "its number of values differs": not self.size,
            "long texts or several texts": texts and (self.size != 1 or max(sizes) > LONG_BYTES),
        }
        return next((reason for reason, is_so in reasons.items() if is_so), "")

    @property
    def shown(self) -> str:
        """The values in a few words."""
        if self.dtype == "string":
            return f"such as {quoted(self.values[0].decode(errors='replace'))[:40]}"
        return f"{min(self.values):g} to {max(self.values):g}"


def start_records(sources: Sequence[str], label: str, *, kind: str = "") -> Start:
    """Return the folder's content for TFRecords.

    Raises:
        DataError: a file is damaged, or has no such label, or no feature that a model can get.
    """
    patterns = tuple(map(_pattern, map(Path, sources)))
    paths = [Path(path) for pattern in patterns for path in find_files([pattern])]
    seen, num_records, bad = _read(paths)
    check_number(num_records, paths[0], "records")
    if label not in seen:
        hint, names = did_you_mean(label, seen), ", ".join(sorted(seen))
        raise DataError(f"--label {label}:{hint} the records have {names}")
    target = seen.pop(label)
    chosen = _kind(label, target, kind.title())
    whys = {name: own.why_unused(name, num_records) for name, own in sorted(seen.items())}
    used = {name: seen[name] for name, why in whys.items() if not why}
    reasons = {name: why for name, why in whys.items() if why}
    if not used:
        shown = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise DataError(f"{paths[0]}: no feature but {label} that a model could get; {shown}")
    counts = Counter(map(str, target.values))
    told = f"tells {label} alone: remove it if it is known only afterwards"
    return Start(
        workload=workload_source(
            "Records",
            title=f"Records with {', '.join(used)}; the label is {label}.",
            seen=f" from the first {num_records:,} records",
            kinds=["Values", chosen],
            arguments=[
                Source("    {\n"),
                *(_feature_line(name, own, num_records) for name, own in used.items()),
                *(fill("        # {}\n", comment(f"{n}: {why}")) for n, why in reasons.items()),
                Source("    },\n"),
                fill("    label={},  # {} values\n", call(chosen, label), len(counts)),
            ],
        ),
        data=patterns,
        num_examples=num_records,
        thresholds="{rmse: {at_most: 1.0}}" if chosen == REGRESSION else "{accuracy: 0.8}",
        remark=f"the most frequent label has {counts.most_common(1)[0][1] / num_records:.1%}",
        notes=(
            *(f"left out: {count:,} records; each {why}" for why, count in bad.items()),
            *(f"{name}: {told}" for name in _leaks(used, target, chosen)),
            *(f"{name}: left out: {why}" for name, why in reasons.items()),
        ),
    )


def _feature_line(name: str, seen: Seen, num_records: int) -> Source:
    """Return the declaration of a feature, with what was seen."""
    shape = [] if seen.size == 1 else [[seen.size]]
    num_missing = num_records - len(seen.records)
    more = {"default_value": DEFAULTS[seen.dtype]} if num_missing else {}
    note = comment(seen.shown + f"; missing in {num_missing:,} records" * bool(num_missing))
    return fill(
        "        {}: {},  # {}\n", quoted(name), call("Values", seen.dtype, *shape, **more), note
    )


def _leaks(used: Mapping[str, Seen], target: Seen, kind: str) -> list[str]:
    """Return the features of single values that tell a label of classes."""
    if kind not in (BINARY, CLASSES):
        return []
    columns = {
        name: codes_of(pa.array([str(own.records.get(at, [""])[0]) for at in target.records]))
        for name, own in used.items()
        if own.size == 1
    }
    label = codes_of(pa.array([str(values[0]) for values in target.records.values()]))
    numbered = {name: (codes, codes) for name, codes in columns.items()}
    return [*find_leaks(numbered, label, has_classes=True)]


def _pattern(path: Path) -> str:
    """Return a file, the pattern of a folder's files that are named as records, or the folder."""
    if not path.exists():
        raise DataError(f"--records {path}: there is no such file or folder")
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
                own.records[num_records] = values[:3]
        num_records += 1
    if not num_records:
        why = f": each record {next(iter(reasons))}" if reasons else " has no records"
        raise DataError(f"{paths[0]}{why}")
    return seen, num_records, reasons


def _is_text(value: bytes) -> bool:
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _kind(label: str, seen: Seen, kind: str) -> str:
    values, dtype = set(seen.values), seen.dtype
    if not kind:
        kind = BINARY if values == {0, 1} else CLASSES if seen.size else MULTILABEL
        kind = REGRESSION if dtype == "float32" else kind
    sizes = " or ".join(map(str, sorted(seen.lengths)[:3]))
    problems = {
        "it has one value in all records that were read": len(values) == 1,
        f"it is {seen.why_unused(label, 0)}": len(seen.dtypes) > 1,
        f"it has {sizes} numbers in a record; a label has one (several texts are a Multilabel)": (
            seen.size != 1 and dtype != "string"
        ),
        f"it is {dtype} in the records; a regression needs float32": (
            kind == REGRESSION and dtype != "float32"
        ),
        f"it has values such as {[*values][:5]}; a binary label has 0 and 1": (
            kind == BINARY and not values <= {0, 1}
        ),
        f"{len(values):,} whole numbers are no classes": (
            kind == CLASSES and dtype == "int64" and len(values) > MOST_CLASSES * 50
        ),
    }
    for problem, is_so in problems.items():
        if is_so:
            raise DataError(f"--label {label}: {problem}")
    return kind
