"""Instances of a table of customers, and the statistics of such rows."""

import numpy as np
import pyarrow as pa

from components.prepare_examples.tables.table_schema import schema_of
from trainer.workloads import Binary, Category, Number, Table, Timestamp

WORKLOAD = Table(
    [
        Number("charge"),
        Category("plan"),
        Category("tags", separator="|", max_length=3),
        Category("floor", low=0, high=9),
        Timestamp("at", parts=("hour",)),
    ],
    label=Binary("churned"),
    name="churn",
)


def rows(count: int, *, seed: int, gold: float = 0.2) -> list[dict]:
    """Return instances; a share of them has the plan gold, a tenth has no charge."""
    random = np.random.default_rng(seed)
    instances = []
    for number in range(count):
        row = {
            "charge": round(float(random.gamma(2, 20)), 2),
            "plan": "gold" if random.random() < gold else str(random.choice(["basic", "plus"])),
            "tags": [str(tag) for tag in random.choice(["a", "b", "c"], 2)],
            "floor": int(random.integers(10)),
            "at": 1_700_000_000 + seed * 10_000 + number,
        }
        if random.random() < 0.1:
            del row["charge"]
        instances.append(row)
    return instances


def statistics_of(instances: list[dict]) -> dict:
    """Return what prepare_examples writes about these rows as the train split."""
    schema = schema_of(WORKLOAD)
    types = {"charge": pa.float64(), "floor": pa.int64(), "at": pa.int64()}
    types |= {"plan": pa.string(), "tags": pa.list_(pa.string())}
    summaries = {}
    for name, statistic in schema.new_statistics().items():
        if name in types:
            statistic.add(pa.array([instance.get(name) for instance in instances], types[name]))
            summaries[name] = statistic.summary()
    return {"splits": {"train": {"num_examples": len(instances), "features": summaries}}}
