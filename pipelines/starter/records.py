"""workload.py for TFRecords of tf.train.Examples: features from the first records, and a model."""

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import read_records
from pipelines.starter.folder import Start
from pipelines.starter.guesses import quoted, valid_name
from pipelines.starter.keras_script import Script
from pipelines.starter.labels import BINARY, CLASSES, MOST_CLASSES, MULTILABEL, REGRESSION
from trainer.suggest import did_you_mean

NUM_RECORDS = 1_000
KINDS = {"float_list": "float32", "int64_list": "int64", "bytes_list": "string"}
IMAGES = (b"\x89PNG", b"\xff\xd8\xff")
BUCKETS = 1_000
LONG_BYTES = 256
SOURCE = '''\
"""Records with {names}; the label is {label}.

Written by `trainyard new` from the first {num:,} records. Comments say what was seen.
"""

{imports}from trainer.workloads import {used}
{decoder}

def encode(features):
    """Return the inputs of the model."""
    import tensorflow as tf

    return {{
{encoded}
    }}
{model}

workload = Records(
    {{
{features}
    }},
    label={declaration},{seen}
    encode_with=encode,
    model=model,
)
'''
MODEL = '''

def model(inputs, *, labels, units: int = 64, layers: int = 2):
    """Return a net over all inputs side by side."""
    import keras

    parts = [
{parts}
    ]
    x = keras.layers.concatenate(parts) if len(parts) > 1 else parts[0]
    x = keras.layers.BatchNormalization()(x)
    for _ in range(layers):
        x = keras.layers.Dense(units, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense({outputs})(x))
'''
DECODER = '''

def decode(data):
    """Return an image's pixels from 0 to 1; black ones for no data, as when a server starts."""
    import tensorflow as tf

    def read():
        image = tf.io.decode_image(data, 3, expand_animations=False)
        image.set_shape([None, None, 3])
        return tf.image.resize(image, [64, 64]) / 255.0

    return tf.cond(tf.equal(data, ""), lambda: tf.zeros([64, 64, 3]), read)
'''
CONVOLVED = """keras.layers.GlobalAveragePooling2D()(
            keras.layers.Conv2D(32, 3, 2, activation="relu")(inputs[{name}])
        )"""


@dataclass
class _Seen:
    """A feature in some records."""

    dtype: str = ""
    num_records: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    values: list[Any] = field(default_factory=list)

    @property
    def is_image(self) -> bool:
        return any(isinstance(one, bytes) and one.startswith(IMAGES) for one in self.values)

    @property
    def size(self) -> int | None:
        """The number of values of each record; None if it differs."""
        [size] = self.lengths if len(self.lengths) == 1 else [None]
        return size


def start_records(
    given: Sequence[str], label: str, *, kind: str = "", script: Script | None = None
) -> Start:
    """Return the folder's content for TFRecords.

    Args:
        given: a folder of TFRecords, or files.
        label: the label's feature.
        kind: of the label; default: guessed.
        script: that builds the model; default: a net over all features.

    Raises:
        DataError: a file is damaged, or has no such label, or no feature that a model can get.
    """
    paths, data = _files(given)
    seen, num_records = _read(paths)
    if label not in seen:
        raise DataError(
            f"--label {label}:{did_you_mean(label, seen)} the records have"
            f" {', '.join(sorted(seen))}"
        )
    target = seen.pop(label)
    chosen, declaration = _declaration(label, target, kind)
    used = {name: one for name, one in seen.items() if one.size and _is_usable(one)}
    if not used:
        raise DataError(f"{paths[0]}: no feature but {label} has as many values in each record")
    outputs = "len(labels)" if chosen in (CLASSES, MULTILABEL) else "1"
    parts = ",\n".join(f"        {_part(name, one)}" for name, one in sorted(used.items()))
    first = sorted(valid_name(name) for name in used)
    combined = f"inputs[{quoted(first[0])}]"
    if len(first) > 1:
        combined = "keras.layers.concatenate(list(inputs.values()))"
    values = Counter(map(str, target.values))
    return Start(
        workload=SOURCE.format(
            names=", ".join(sorted(used)),
            label=label,
            num=num_records,
            imports="".join(f"{line}\n" for line in script.imports) if script else "",
            used=", ".join(sorted({"Records", "Values", declaration.partition("(")[0]})),
            decoder=DECODER if any(one.is_image for one in used.values()) else "",
            encoded="\n".join(
                f"        {_encoded(name, one)}," for name, one in sorted(used.items())
            ),
            model=script.adapter(combined)
            if script
            else MODEL.format(parts=parts, outputs=outputs),
            features="\n".join(
                [_feature(name, one, num_records) for name, one in sorted(used.items())]
                + [
                    f"        # {name}: {_why(one)}"
                    for name, one in sorted(seen.items())
                    if name not in used
                ]
            ),
            declaration=declaration,
            seen=f"  # {len(values)} values",
        ),
        data=data,
        num_examples=num_records,
        thresholds="{rmse: {at_most: 1.0}}" if chosen == REGRESSION else "{accuracy: 0.8}",
        remark=f"the most frequent label has {values.most_common(1)[0][1] / num_records:.1%}",
        code=script.files if script else {},
    )


def _files(given: Sequence[str]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the files, and the patterns that a run.yaml names."""
    if len(given) == 1 and Path(given[0]).is_dir():
        folder = Path(given[0])
        for pattern in ("*.tfrecord*", "*.tfrec*", "*.records*"):
            if found := sorted(folder.glob(pattern)):
                return found, (str(folder / pattern),)
        raise DataError(f"{folder} has no files *.tfrecord*; name the files instead")
    missing = [path for path in given if not Path(path).is_file()]
    if missing:
        raise DataError(f"--records {missing[0]}: there is no such file or folder")
    return [Path(path) for path in given], tuple(given)


def _read(paths: Sequence[Path]) -> tuple[dict[str, _Seen], int]:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    seen: dict[str, _Seen] = {}
    records = itertools.chain.from_iterable(read_records(path) for path in paths)
    num_records = 0
    for record in itertools.islice(records, NUM_RECORDS):
        num_records += 1
        try:
            features = tf.train.Example.FromString(record).features.feature
        except DecodeError as error:
            raise DataError(f"{paths[0]}: record {num_records} is no tf.train.Example") from error
        for name, feature in features.items():
            if kind := feature.WhichOneof("kind"):
                values = getattr(feature, kind).value
                one = seen.setdefault(name, _Seen(KINDS[kind]))
                one.num_records += 1
                one.lengths[len(values)] += 1
                one.values += values[:3]
    if not num_records:
        raise DataError(f"{paths[0]} has no records")
    return seen, num_records


def _declaration(label: str, seen: _Seen, kind: str) -> tuple[str, str]:
    """Return the kind of the label and its declaration."""
    values = set(seen.values)
    if len(values) < 2:  # noqa: PLR2004
        raise DataError(f"--label {label}: it has one value in all records that were read")
    name = quoted(label)
    if not kind and seen.dtype == "int64":
        kind = BINARY if values == {0, 1} else CLASSES
    kind = kind or (REGRESSION if seen.dtype == "float32" else CLASSES if seen.size else MULTILABEL)
    if kind == REGRESSION and seen.dtype != "float32":
        raise DataError(f"--kind regression: {label} is {seen.dtype} in the records, not float32")
    if kind == BINARY and values - {0, 1}:
        raise DataError(f"--kind binary: {label} has {sorted(values)[:5]}, not 0 and 1")
    if kind == CLASSES and seen.dtype == "int64" and len(values) > MOST_CLASSES * 50:
        raise DataError(f"--label {label}: {len(values):,} whole numbers are no classes")
    kinds = {
        BINARY: "Binary",
        CLASSES: "Classes",
        MULTILABEL: "Multilabel",
        REGRESSION: "Regression",
    }
    return kind, f"{kinds[kind]}({name})"


def _is_usable(seen: _Seen) -> bool:
    return seen.dtype != "string" or (seen.size == 1 and (seen.is_image or _is_short(seen)))


def _is_short(seen: _Seen) -> bool:
    return all(len(one) <= LONG_BYTES for one in seen.values)


def _why(seen: _Seen) -> str:
    return "its number of values differs" if not seen.size else "long texts or several texts"


def _feature(name: str, seen: _Seen, num_records: int) -> str:
    shape = "" if seen.size == 1 else f", [{seen.size}]"
    default = {"float32": "0.0", "int64": "0", "string": '""'}[seen.dtype]
    is_always = seen.num_records == num_records
    more = "" if is_always else f", default_value={default}"
    return f"        {quoted(name)}: Values({quoted(seen.dtype)}{shape}{more}),  # {_shown(seen)}"


def _shown(seen: _Seen) -> str:
    if seen.is_image:
        return "images"
    if seen.dtype == "string":
        return "such as " + json.dumps(seen.values[0].decode(errors="replace"))[:40]
    return f"{min(seen.values):g} to {max(seen.values):g}"


def _encoded(name: str, seen: _Seen) -> str:
    source = f"features[{quoted(name)}]"
    if seen.is_image:
        value = f"tf.map_fn(decode, {source}, tf.float32)"
    elif seen.dtype == "string":
        value = f"tf.strings.to_hash_bucket_fast({source}, {BUCKETS})"
    else:
        value = source if seen.dtype == "float32" else f"tf.cast({source}, tf.float32)"
    return f"{quoted(valid_name(name))}: {value}"


def _part(name: str, seen: _Seen) -> str:
    source = f"inputs[{quoted(valid_name(name))}]"
    if seen.is_image:
        return CONVOLVED.format(name=quoted(valid_name(name)))
    if seen.dtype == "string":
        return f"keras.layers.Flatten()(keras.layers.Embedding({BUCKETS}, 8)({source}))"
    return f"keras.layers.Reshape([{seen.size}])({source})"
