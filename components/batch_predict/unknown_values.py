"""Values of categories that a model has not learnt; it predicts as for any other unknown value."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from components.batch_predict.inputs.batch import Batch
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
        for name, known in self._known.items() if batch.features else ():
            assert batch.features is not None
            values = np.asarray(batch.features[name]).ravel().tolist()
            if new := set(values) - known:
                example = min(new).decode(errors="replace")
                entry = self.by_column.setdefault(name, {"values": 0, "example": example})
                entry["values"] += sum(map(new.__contains__, values))


def merge_unknown(shards: Sequence[Json]) -> dict[str, Json]:
    """Return the counts of all parts."""
    merged: dict[str, Json] = {}
    for shard in shards:
        for name, entry in shard["unknown"].items():
            merged.setdefault(name, {**entry, "values": 0})["values"] += entry["values"]
    return merged


def unknown_text(unknown: dict[str, Json]) -> str:
    """Return the counts as a text."""
    return ", ".join(
        f"{name} ({entry['values']:,}, such as {entry['example']!r})"
        for name, entry in unknown.items()
    )
