"""Counts of the tokens of texts, in bounded memory.

Texts are split as the model does (trainer.workloads.encoding.tokens) and
keras.layers.TextVectorization: lower case, without punctuation, at white space.
"""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.statistics.numbers import NUM_TOP_VALUES
from trainer import Json

# The signs that keras.layers.TextVectorization strips by default.
PUNCTUATION = r"[!\"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']"
# What tf.strings.split takes for white space.
SPACES = r"[ \t\n\r\f\v]+"
# Beyond twice as many, the rare ones of a part are dropped.
MAX_TOKENS = 200_000


@dataclass
class Words:
    """Counts of tokens; beyond 2 * MAX_TOKENS distinct ones, without the rarest.

    Adding and merging in the same order gives the same counts.
    """

    num_missing: int = 0
    num_present: int = 0
    is_exact: bool = True
    tokens: dict[str, int] = field(default_factory=dict)
    num_listed: int = NUM_TOP_VALUES

    def add(self, column: pa.Array) -> None:
        """Count a column of texts or nulls."""
        self.num_missing += column.null_count
        present = column.drop_null()
        self.num_present += len(present)
        counted = pc.list_flatten(split_tokens(present)).value_counts()
        pairs = zip(
            counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
        )
        self._count({token: count for token, count in pairs if token})

    def merge(self, other: "Words") -> None:
        """Add the counts of another instance."""
        self.num_missing += other.num_missing
        self.num_present += other.num_present
        self.is_exact = self.is_exact and other.is_exact
        self._count(other.tokens)

    def _count(self, counts: dict[str, int]) -> None:
        for token, count in counts.items():
            self.tokens[token] = self.tokens.get(token, 0) + count
        if len(self.tokens) > 2 * MAX_TOKENS:
            self.is_exact = False
            self.tokens = dict(self._ranked()[:MAX_TOKENS])

    def _ranked(self) -> list[tuple[str, int]]:
        return sorted(self.tokens.items(), key=lambda item: (-item[1], item[0]))

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json (see statistics.states)."""
        ranked = [list(item) for item in self._ranked()]
        return {
            "type": "STRING",
            "num_present": self.num_present,
            "num_missing": self.num_missing,
            "num_unique": len(ranked),
            "is_exact": self.is_exact,
            "top_values": ranked[:NUM_TOP_VALUES],
            "tokens": ranked[: self.num_listed],
        }


def split_tokens(texts: pa.Array) -> pa.Array:
    """Return the tokens of each text, with empty ones at the ends of some."""
    plain = pc.replace_substring_regex(_lower(texts), PUNCTUATION, "")
    return pc.split_pattern_regex(plain, SPACES)


def _lower(texts: pa.Array) -> pa.Array:
    """Return texts in lower case; Arrow's own differs from TensorFlow's in some letters."""
    is_ascii = pc.string_is_ascii(texts)
    if pc.all(is_ascii).as_py() is not False:
        return pc.ascii_lower(texts)
    others = [text.lower() for text in texts.filter(pc.invert(is_ascii)).to_pylist()]
    return pc.replace_with_mask(
        pc.ascii_lower(texts), pc.invert(is_ascii), pa.array(others, pa.string())
    )
