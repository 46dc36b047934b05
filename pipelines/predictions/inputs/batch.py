"""A batch of rows, ready for a prediction, and the rows that cannot be predicted."""

from dataclasses import dataclass, field
from typing import Any

from trainer import Json

BATCH_ROWS = 1024


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of one file.

    Attributes:
        rows: the number of each row in the file, from 1.
        keys: the key of each row, None for one without.
        features: the columns of the rows by name; None for a model of another program.
        instances: the rows as instances; only of a model of another program.
        errors: rows without a prediction: `row`, `reason` and perhaps `column` and `record`.
    """

    path: str
    rows: list[int]
    keys: list[Any]
    features: dict[str, Any] | None = None
    instances: list[Any] = field(default_factory=list)
    errors: list[Json] = field(default_factory=list)

    @property
    def num_read(self) -> int:
        """The number of rows, those with errors included."""
        return len(self.rows) + len(self.errors)
