"""Declaration of the splits: by a hash, by time, by the values of a column, or by files."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any

from trainer import Json

HASH, FILES = "hash", "files"
PARTS = ("train", "eval", "test")
DURATION = re.compile(r"[1-9]\d{0,4}[hdw]")
Part = str | int | float | bool | Sequence[str | int | float | bool]


@dataclass(frozen=True)
class Split:
    """The rule that decides which rows, images or records train, stop (eval) and judge the model.

    A part is a value of the column or several, or files. If the column is a Timestamp, it is the
    length of a window, such as `30d`, `4w` or `12h`, or its first day; a window lasts until the
    next one, the last until the end of the data. Without `train`, all other rows train. Without
    `eval` or `test`, a hash takes a share of them from train.

    Attributes:
        by: a column of a table or a feature of records; `files`; or `hash`, of the key or, without
            one, of all columns.
        train, eval, test: the part of each split.
    """

    by: str = HASH
    _: KW_ONLY
    train: Part = ()
    eval: Part = ()
    test: Part = ()

    def __post_init__(self) -> None:
        if not isinstance(self.by, str) or not self.by:
            raise ValueError(f"split.by is {self.by!r}; it must be a column, {FILES} or {HASH}")
        for name in PARTS:
            value = getattr(self, name)
            values = value if isinstance(value, list | tuple) else [value]
            if isinstance(value, dict) or any(isinstance(item, dict | list) for item in values):
                raise ValueError(
                    f"split.{name} is {value!r}; it must be a value, or a list of them"
                )
            object.__setattr__(self, name, tuple(map(_text, values)))
        parts = self.parts
        if self.by == HASH and parts:
            name = next(iter(parts))
            raise ValueError(
                f"split.{name} is {', '.join(parts[name])}, but a hash has only shares (ratios);"
                f" give the column, as split: {{by: COLUMN, {name}: …}}"
            )
        if self.by != HASH and not (self.eval or self.test):
            raise ValueError(
                f"split is by {self.by}, without eval and test; name at least one, as"
                f" split: {{by: {self.by}, test: …}}"
            )
        named = [value for values in parts.values() for value in values]
        if twice := [name for name in named if named.count(name) > 1 and not is_window((name,))]:
            raise ValueError(f"split: {twice[0]!r} is in two splits; name it in one")

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The parts by the names of their splits, without those that are not declared."""
        return {name: getattr(self, name) for name in PARTS if getattr(self, name)}

    @property
    def has_windows(self) -> bool:
        """True if all parts are lengths of windows or first days."""
        return bool(self.parts) and all(map(is_window, self.parts.values()))

    def to_json(self) -> Json:
        """Return the arguments."""
        return {"by": self.by, **{name: list(values) for name, values in self.parts.items()}}


def is_window(values: tuple[Any, ...]) -> bool:
    """Return whether a part is the length of a window or its first day."""
    if len(values) != 1:
        return False
    if DURATION.fullmatch(values[0]):
        return True
    try:
        datetime.fromisoformat(values[0])
    except ValueError:
        return False
    return "-" in values[0]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)
