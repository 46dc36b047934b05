"""Columns of texts as people write them, read as requests are; see declarations.written."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from trainer.workloads.declarations.written import (
    BRACKETS,
    IN_BRACKETS,
    NO_BREAK_SPACES,
    SPELLINGS,
    Written,
)

# A number as programs write it; \d would match digits of other scripts.
NUMBER_PATTERN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def plain_texts(
    texts: pa.Array, markers: Sequence[str] = (), *, is_spelled: bool = True
) -> pa.Array:
    """Return texts without blanks around them; null for an empty one and for a marker.

    With `is_spelled` true and false are in lower case.
    """
    plain = pc.utf8_trim_whitespace(texts)
    is_missing = pc.is_in(plain, pa.array(["", *markers], pa.string()))
    plain = pc.if_else(is_missing, pa.scalar(None, pa.string()), plain)
    if not is_spelled:
        return plain
    for spelling in dict.fromkeys(SPELLINGS.values()):
        spellings = [text for text, plain_one in SPELLINGS.items() if plain_one == spelling]
        is_other = pc.is_in(plain, pa.array(spellings))
        if pc.any(is_other).as_py():
            plain = pc.if_else(is_other, spelling, plain)
    return plain


def plain_numbers(texts: pa.Array, form: Written) -> pa.Array:
    """Return texts of numbers as a program writes them; null for texts in another form."""
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, NO_BREAK_SPACES, " "))
    if BRACKETS in form.signs:
        texts = pc.replace_substring_regex(texts, IN_BRACKETS, r"-\1")
    is_number = pc.match_substring_regex(texts, form.pattern)
    digits = pc.replace_substring_regex(texts, form.pattern, r"\1\2")
    if form.thousands:
        digits = pc.replace_substring(digits, form.thousands, "")
    digits = pc.replace_substring(digits, form.decimal, ".")
    return pc.if_else(is_number, digits, pa.scalar(None, pa.string()))
