"""Rows that are set aside, with the reason."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass
class BadRows:
    """Rows of a block that are set aside: the first reason found for each."""

    reasons: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, rows: "NDArray[np.int64]", column: str, describe: Callable[[int], str]) -> None:
        """Sets rows aside for what is in a column."""
        for row in rows.tolist():
            self.reasons.setdefault(row, (column, describe(row)))
