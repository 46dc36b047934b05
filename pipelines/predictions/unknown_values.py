"""Values of categories that a model has not learnt; it predicts as for any other unknown value."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipelines.predictions.inputs.batch import Batch
from trainer import Json
from trainer.workloads.declarations.features import Category
from trainer.workloads.table import Table


class UnknownValues:
    """Count of the values of a part, with an example, by column."""

    def __init__(self, workload: Any) -> None:
        self.by_column: dict[str, Json] = {}
        self._known: dict[str, set[bytes]] = {}
        for feature in workload.used if isinstance(workload, Table) else ():
            learnt = workload.learnt.vocabularies.get(feature.name, ())
            if isinstance(feature, Category) and (terms := feature.values or learnt):
                self._known[feature.name] = {b"", *(str(term).encode() for term in terms)}

    def count(self, batch: Batch) -> None:
        """Count the values of a batch."""
        if not batch.features:
            return
        for column, known in self._known.items():
            values = np.asarray(batch.features[column]).ravel().tolist()
            if unknown := set(values) - known:
                number = sum(value in unknown for value in values)
                _add(self.by_column, column, values=number, example=min(unknown).decode())


def merge_unknown(shards: Sequence[Json]) -> dict[str, Json]:
    """Return the counts of all parts."""
    merged: dict[str, Json] = {}
    for shard in shards:
        for column, count in shard["unknown"].items():
            _add(merged, column, **count)
    return merged


def _add(counts: dict[str, Json], column: str, *, values: int, example: str) -> None:
    count = counts.setdefault(column, {"values": 0, "example": example})
    count["values"] += values


def unknown_text(unknown: dict[str, Json]) -> str:
    """Return the counts as a text."""
    return ", ".join(
        f"{column} ({count['values']:,}, such as {count['example']!r})"
        for column, count in unknown.items()
    )
