"""Tokens of texts, the same in the graph and in plain Python.

They follow keras.layers.TextVectorization, whose default standardization is lower case
without punctuation, split at white space; but letters outside ASCII become lower case, too.
"""

from typing import Any

from trainer.errors import TextError
from trainer.runtime.lazy import tf

PUNCTUATION = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'"
_PATTERN = "[" + "".join(f"\\{sign}" for sign in PUNCTUATION) + "]"


def decode_text(value: bytes, *, feature: str) -> str:
    """Return the text of a value of a feature; TextError if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise TextError(feature, value) from error


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text, in order."""
    plain = text.lower().encode(errors="replace").translate(None, PUNCTUATION.encode())
    return [token.decode() for token in plain.split()]


def tokenize(texts: Any, *, max_length: int) -> Any:
    """Return the first tokens of each text, [batch, max_length], padded with empty ones."""
    plain = tf.strings.regex_replace(tf.strings.lower(texts, encoding="utf-8"), _PATTERN, "")
    return tf.strings.split(plain).to_tensor(default_value="", shape=[None, max_length])
