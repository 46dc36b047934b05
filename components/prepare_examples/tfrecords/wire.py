"""The bytes of a serialised tf.train.Example.

Wire format: https://protobuf.dev/programming-guides/encoding, tensorflow/core/example/feature.proto
"""

# A tag is the field's number times 8, plus 2: the wire type of length-prefixed fields.
KEY, VALUE, FEATURE, FEATURES, LIST_VALUES = 10, 18, 10, 10, 10
BYTES_LIST, FLOAT_LIST, INT64_LIST = 10, 18, 26
MAX_VARINT_BYTES = 10
HIGH_BIT = 0x80


def varint(value: int) -> bytes:
    """Return a number as a protobuf varint; negative ones as their 64-bit complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value >= HIGH_BIT:
        encoded.append(value % HIGH_BIT | HIGH_BIT)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def sized(tag: int, content: bytes) -> bytes:
    """Return a length-prefixed field."""
    return bytes([tag]) + varint(len(content)) + content


def entry(name: str, kind: int, payload: bytes) -> bytes:
    """Return the map entry of a feature; `payload` is its serialised list."""
    key = sized(KEY, name.encode())
    return sized(FEATURE, key + sized(VALUE, sized(kind, payload)))
