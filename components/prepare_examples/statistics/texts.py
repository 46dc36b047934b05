"""Counts of texts and of their tokens, in bounded memory.

Texts are split as the model does (trainer.workloads.encoding.lookups) and
keras.layers.TextVectorization: lower case, without punctuation, at white space.
"""

import hashlib
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.statistics.numbers import NUM_TOP_VALUES
from trainer import Json

MAX_STRINGS = 20_000
# The signs that keras.layers.TextVectorization strips by default.
PUNCTUATION = r"[!\"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']"
# What tf.strings.split takes for white space.
SPACES = r"[ \t\n\r\f\v]+"
# Beyond twice as many, the rare ones of a part are dropped.
MAX_TOKENS = 200_000


@dataclass
class Strings:
    """Counts of texts; beyond MAX_STRINGS distinct ones, of a sample by hash, in any order."""

    num_missing: int = 0
    num_present: int = 0
    is_exact: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    num_listed: int = NUM_TOP_VALUES

    def add(self, column: pa.Array) -> None:
        """Count a column of texts or nulls."""
        self.num_missing += column.null_count
        present = column.drop_null()
        self.num_present += len(present)
        self._count(_counted(self._values(present)))

    def merge(self, other: "Strings") -> None:
        """Add the counts of another instance."""
        self.num_missing += other.num_missing
        self.num_present += other.num_present
        self.is_exact = self.is_exact and other.is_exact
        self._count(other.counts)

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json (see statistics.states)."""
        return {
            "type": "STRING",
            "num_present": self.num_present,
            "num_missing": self.num_missing,
            "num_unique": len(self.counts),
            "is_exact": self.is_exact,
            "top_values": self._ranked(self.num_listed),
        }

    def _count(self, counts: dict[str, int]) -> None:
        for value, count in counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        kept = self._kept()
        if kept is not None:
            self.is_exact = False
            self.counts = {value: self.counts[value] for value in kept}

    def _ranked(self, most: int) -> list[list[str | int]]:
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return [list(item) for item in ranked[:most]]

    def _values(self, texts: pa.Array) -> pa.Array:
        return texts

    def _kept(self) -> list[str] | None:
        """Return the values to keep, None for all."""
        if len(self.counts) <= MAX_STRINGS:
            return None
        return sorted(self.counts, key=_text_hash)[:MAX_STRINGS]


@dataclass
class Words(Strings):
    """Counts of tokens; beyond 2 * MAX_TOKENS distinct ones, without the rarest.

    Adding and merging in the same order gives the same counts.
    """

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json (see statistics.states)."""
        listed = {"top_values": self._ranked(NUM_TOP_VALUES)}
        return {**super().summary(), **listed, "tokens": self._ranked(self.num_listed)}

    def _values(self, texts: pa.Array) -> pa.Array:
        tokens = pc.list_flatten(split_tokens(texts))
        return tokens.filter(pc.not_equal(tokens, ""))

    def _kept(self) -> list[str] | None:
        if len(self.counts) <= 2 * MAX_TOKENS:
            return None
        return [str(token) for token, _ in self._ranked(MAX_TOKENS)]


def split_tokens(texts: pa.Array) -> pa.Array:
    """Return the tokens of each text, with empty ones at the ends of some."""
    plain = pc.replace_substring_regex(_lower(texts), PUNCTUATION, "")
    return pc.split_pattern_regex(plain, SPACES)


def _lower(texts: pa.Array) -> pa.Array:
    """Return texts in lower case; Arrow's own differs from TensorFlow's in some letters."""
    is_ascii = pc.string_is_ascii(texts)
    if pc.all(is_ascii).as_py() is not False:
        return pc.ascii_lower(texts)
    lowered = [text.lower() for text in texts.filter(pc.invert(is_ascii)).to_pylist()]
    return pc.replace_with_mask(
        pc.ascii_lower(texts), pc.invert(is_ascii), pa.array(lowered, pa.string())
    )


def _counted(values: pa.Array) -> dict[str, int]:
    counted = values.value_counts()
    columns = (counted.field(name).to_pylist() for name in ("values", "counts"))
    return dict(zip(*columns, strict=True))


def _text_hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
