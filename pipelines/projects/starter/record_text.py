"""Source text of a workload of records: declarations, encoding and a model."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pipelines.projects.literals import Source, call, comment, fill, quoted

IMAGES = (b"\x89PNG", b"\xff\xd8\xff")
LONG_BYTES = 256
MOST_TELLING = 50  # values of a feature that may tell the label
SOURCE = '''\
"""Records with {names}; the label is {label}.

Written by `trainyard new` from the first {num:,} records. Comments say what was seen.
"""

{imports}from trainyard import {used}
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
{arguments})
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
    """A feature in some records; an identifier has another value in each.

    `pairs` are its values, of records with one value, beside the label's values; `input` is the
    name of the model's input.
    """

    dtype: str = ""
    input: str = ""
    is_mixed: bool = False
    is_identifier: bool = False
    num_records: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    values: list[Any] = field(default_factory=list)
    pairs: set[tuple[Any, Any]] = field(default_factory=set)

    def add(self, dtype: str, values: list[Any], target: list[Any]) -> None:
        """Add the values of a record and of its label."""
        self.is_mixed |= self.dtype not in ("", dtype)
        self.dtype = self.dtype or dtype
        self.num_records += 1
        self.lengths[len(values)] += 1
        self.values += values[:3]
        if len(values) == 1:
            self.pairs.add((values[0], tuple(target)))

    def tells(self, label: "Seen", num_records: int) -> bool:
        """Return whether each value occurs with a single value of the label."""
        if self.size != 1 or self.is_image or label.dtype == "float32":
            return False
        values, targets = ({pair[at] for pair in self.pairs} for at in (0, 1))
        is_few = len(values) <= min(MOST_TELLING, num_records / 10)
        return is_few and len(values) == len(self.pairs) and len(values) >= len(targets) > 1

    @property
    def is_odd(self) -> bool:
        """True if the values are of two types, or binary data."""
        return self.is_mixed or self.is_binary

    @property
    def is_binary(self) -> bool:
        """True if the values are bytes that are neither texts nor images."""
        texts = [value for value in self.values if isinstance(value, bytes)]
        return not self.is_image and any(not _is_text(value) for value in texts)

    @property
    def is_image(self) -> bool:
        """True if the values are PNG or JPEG files."""
        return any(isinstance(value, bytes) and value.startswith(IMAGES) for value in self.values)

    @property
    def form(self) -> str:
        """The type of the values, or `image`."""
        return "image" if self.is_image else self.dtype

    @property
    def size(self) -> int | None:
        """The number of values of each record; None if it differs."""
        [size] = self.lengths if len(self.lengths) == 1 else [None]
        return size


def is_usable(seen: Seen) -> bool:
    """Return whether a model can get a feature: an image, a short text or numbers."""
    if seen.is_image:
        return seen.size == 1
    if seen.is_odd:
        return False
    if seen.is_identifier or seen.dtype != "string":
        return not seen.is_identifier
    return seen.size == 1 and all(len(value) <= LONG_BYTES for value in seen.values)


def _is_text(value: bytes) -> bool:
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def why_unused(seen: Seen) -> str:
    """Return why a model cannot get a feature."""
    if seen.is_mixed:
        return "of one type in some records and of another in others: write one type"
    if seen.is_binary:
        sizes = {len(value) for value in seen.values}
        size = f"{sizes.pop()} bytes" if len(sizes) == 1 else "bytes"
        return f"{size} that are no text or image; decode them, as with tf.io.decode_raw, in encode"
    if seen.is_identifier:
        return "another value in every record: an identifier"
    return "its number of values differs" if not seen.size else "long texts or several texts"


def feature_line(name: str, seen: Seen, num_records: int) -> Source:
    """Return the declaration of a feature, with what was seen."""
    shape = [] if seen.size == 1 else [[seen.size]]
    default = {"float32": 0.0, "int64": 0, "string": ""}[seen.dtype]
    is_always = seen.num_records == num_records
    more = {} if is_always else {"default_value": default}
    missing = "" if is_always else f"; missing in {num_records - seen.num_records:,} records"
    declaration = call("Values", seen.dtype, *shape, **more)
    note = comment(f"{_shown(seen)}{missing}")
    return fill("        {}: {},  # {}\n", quoted(name), declaration, note)


def _shown(seen: Seen) -> str:
    if seen.is_image:
        return "images"
    if seen.dtype == "string":
        return "such as " + quoted(seen.values[0].decode(errors="replace"))[:40]
    return f"{min(seen.values):g} to {max(seen.values):g}"


def encoded_line(name: str, seen: Seen) -> Source:
    """Return the item of a feature in the result of `encode`."""
    return fill(ENCODED[seen.form], input=quoted(seen.input), name=quoted(name))


def part_line(seen: Seen) -> Source:
    """Return the layers that make a vector of an input of the model."""
    return fill(PARTS[seen.form], name=quoted(seen.input), size=seen.size)
