"""Names of features, made from the names of columns."""

import re
import unicodedata
from collections.abc import Iterable

from trainer.workloads.declarations.features import TIME_PARTS
from trainer.workloads.declarations.names import distinct_names

# Of the inputs that a feature may become besides its own.
SUFFIXES = ("is_missing", "bucket", "cycles", *TIME_PARTS)


def valid_names(names: Iterable[str]) -> dict[str, str]:
    """Return the name to declare for each column: its own if it has only letters, digits, _ and .

    Letters of all alphabets are kept. Other signs become underscores; a number tells names apart
    that would be the same then.
    """
    columns = list(names)
    inputs = {f"{name}_{suffix}" for name in columns for suffix in SUFFIXES}
    return distinct_names(columns, _valid_name, taken=inputs)


def _valid_name(name: str) -> str:
    if re.fullmatch(r"[^\W\d_][\w.]*", name) and name != "key":
        return name
    parts = unicodedata.normalize("NFKD", name)
    plain = "".join(sign for sign in parts if not unicodedata.combining(sign))
    made = re.sub(r"\W+", "_", unicodedata.normalize("NFC", plain).casefold()).strip("_")
    made = made or "column"
    return made if made[0].isalpha() and made != "key" else f"c_{made}"
