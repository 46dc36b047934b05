"""workload.py for TFRecords of tf.train.Examples: features from the first records, and a model."""

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
from pipelines.projects.starter.folder import Start, check_number
from pipelines.projects.starter.guesses import ID_NAME, MOST_CODES
from pipelines.projects.starter.labels import BINARY, CLASSES, MOST_CLASSES, MULTILABEL, REGRESSION
from pipelines.projects.starter.names import valid_names
from trainer.errors import did_you_mean

NUM_RECORDS = 1_000
MOST_FILES = 50
DEFAULTS = {"float32": 0.0, "int64": 0, "string": ""}
IMAGES = (b"\x89PNG", b"\xff\xd8\xff")
LONG_BYTES = 256
SOURCE = '''\
"""Records with {names}; the label is {label}.

Written by `trainyard new` from the first {num:,} records. Comments say what was seen.
"""

from trainyard import {used}
{decoder}

def encode(features):
    """Return the inputs of the model."""
    import tensorflow as tf

    return {{
{encoded}    }}
{model}

workload = Records(
    {{
{features}    }},
    label={declaration},  # {num_values} values
    encode_with=encode,
    model=model,
)
'''
MODEL = '''

def model(inputs, *, labels, units: int = 64, layers: int = 2):
    """Return a net over all inputs side by side."""
    import keras

    parts = [
{parts}    ]
    x = keras.layers.concatenate(parts) if len(parts) > 1 else parts[0]
    x = keras.layers.BatchNormalization()(x)
    for _ in range(layers):
        x = keras.layers.Dense(units, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense({outputs})(x))
'''
DECODER = Source('''

def decode(data):
    """Return an image's pixels from 0 to 1; black ones for no data, as when a server starts."""
    import tensorflow as tf

    def read():
        image = tf.io.decode_image(data, 3, expand_animations=False)
        image.set_shape([None, None, 3])
        return tf.image.resize(image, [64, 64]) / 255.0

    return tf.cond(tf.equal(data, ""), lambda: tf.zeros([64, 64, 3]), read)
''')
ENCODED = {
    "float32": "        {input}: features[{name}],\n",
    "int64": "        {input}: tf.cast(features[{name}], tf.float32),\n",
    "string": "        {input}: tf.strings.to_hash_bucket_fast(features[{name}], 1000),\n",
    "image": "        {input}: tf.map_fn(decode, features[{name}], tf.float32),\n",
}
PARTS = {
    "float32": "        keras.layers.Reshape([{size}])(inputs[{name}]),\n",
    "int64": "        keras.layers.Reshape([{size}])(inputs[{name}]),\n",
    "string": """\
        keras.layers.Flatten()(keras.layers.Embedding(1000, 8)(inputs[{name}])),
""",
    "image": """\
        keras.layers.GlobalAveragePooling2D()(
            keras.layers.Conv2D(32, 3, 2, activation="relu")(inputs[{name}])
        ),
""",
}


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

    @cached_property
    def dtype(self) -> str:
        """The type of the values, or `image`."""
        texts = [value for value in self.values if isinstance(value, bytes)]
        return "image" if any(text.startswith(IMAGES) for text in texts) else min(self.dtypes)

    def why_unused(self, name: str, num_records: int) -> str:
        """Return why a model cannot get the feature, or ""."""
        values = self.values
        if len(self.dtypes) > 1:
            return "of one type in some records and of another in others: write one type"
        if self.dtype == "string" and not all(map(_is_text, values)):
            sizes = {len(value) for value in values}
            size = f"{min(sizes)} bytes" if len(sizes) == 1 else "bytes"
            return f"{size} that are no text or image; decode them, as with tf.io.decode_raw"
        is_named = ID_NAME.search(name.lower()) or self.dtype == "string"
        if self.size == 1 and is_named and len({*values}) == num_records > MOST_CODES:
            return "another value in every record: an identifier"
        if not self.size:
            return "its number of values differs"
        is_short = self.dtype != "string" or all(len(value) <= LONG_BYTES for value in values)
        is_one = self.size == 1 or self.dtype in ("float32", "int64")
        return "" if is_short and is_one else "long texts or several texts"

    @property
    def shown(self) -> str:
        """The values in a few words."""
        if self.dtype == "image":
            return "images"
        if self.dtype == "string":
            return f"such as {quoted(self.values[0].decode(errors='replace'))[:40]}"
        return f"{min(self.values):g} to {max(self.values):g}"


def start_records(sources: Sequence[str], label: str, *, kind: str = "") -> Start:
    """Return the folder's content for TFRecords, with a net over all features.

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
    chosen = _kind(label, target, kind)
    whys = {name: own.why_unused(name, num_records) for name, own in sorted(seen.items())}
    used = {name: seen[name] for name, why in whys.items() if not why}
    reasons = {name: why for name, why in whys.items() if why}
    if not used:
        shown = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise DataError(f"{paths[0]}: no feature but {label} that a model could get; {shown}")
    inputs = valid_names(seen)
    parts = [
        fill(PARTS[own.dtype], name=quoted(inputs[name]), size=own.size)
        for name, own in used.items()
    ]
    many = chosen in (CLASSES, MULTILABEL)
    model = fill(MODEL, parts=parts, outputs=Source("len(labels)") if many else 1)
    counts = Counter(map(str, target.values))
    told = f"tells {label} alone: remove it if it is known only afterwards"
    return Start(
        workload=fill(
            SOURCE,
            names=", ".join(used),
            label=label,
            num=num_records,
            used=", ".join(sorted({"Records", "Values", chosen.title()})),
            decoder=DECODER if any(own.dtype == "image" for own in used.values()) else None,
            encoded=[
                fill(ENCODED[own.dtype], input=quoted(inputs[name]), name=quoted(name))
                for name, own in used.items()
            ],
            model=model,
            features=[
                *(_feature_line(name, own, num_records) for name, own in used.items()),
                *(fill("        # {}\n", comment(f"{n}: {why}")) for n, why in reasons.items()),
            ],
            declaration=call(chosen.title(), label),
            num_values=len(counts),
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
    [dtype] = seen.dtypes
    shape = [] if seen.size == 1 else [[seen.size]]
    num_missing = num_records - len(seen.records)
    more = {"default_value": DEFAULTS[dtype]} if num_missing else {}
    note = comment(seen.shown + f"; missing in {num_missing:,} records" * bool(num_missing))
    return fill(
        "        {}: {},  # {}\n", quoted(name), call("Values", dtype, *shape, **more), note
    )


def _leaks(used: Mapping[str, Seen], target: Seen, kind: str) -> list[str]:
    """Return the features of single values that tell a label of classes."""
    if kind not in (BINARY, CLASSES):
        return []
    columns = {
        name: codes_of(pa.array([str(own.records.get(at, [""])[0]) for at in target.records]))
        for name, own in used.items()
        if own.size == 1 and own.dtype != "image"
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
