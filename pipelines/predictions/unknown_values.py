"""Values of categories that a model has not learnt; it predicts as for any other unknown value."""

import threading
from typing import Any

import numpy as np

from pipelines.predictions.inputs.batch import Batch
from trainer import Json
from trainer.workloads.declarations.features import Category
from trainer.workloads.table import Table


class UnknownValues:
    """Count of the values of all parts, which threads predict, with an example, by column."""

    def __init__(self, workload: Any) -> None:
        self.by_column: dict[str, Json] = {}
        self._lock = threading.Lock()
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
                with self._lock:
                    example = {"values": 0, "example": min(unknown).decode()}
                    count = self.by_column.setdefault(column, example)
                    count["values"] += sum(value in unknown for value in values)


def unknown_text(unknown: dict[str, Json]) -> str:
    """Return the counts as a text."""
    return ", ".join(
        f"{column} ({count['values']:,}, such as {count['example']!r})"
        for column, count in unknown.items()
    )
