import random

import pyarrow as pa
import pytest

from components.prepare_examples.statistics import duplicates
from components.prepare_examples.statistics.anomalies import duplicate_anomalies
from components.prepare_examples.statistics.duplicates import KeyCounts, merge_keys

pytestmark = pytest.mark.fast


def counted(*columns: list[str | None]) -> KeyCounts:
    keys = KeyCounts()
    for column in columns:
        keys.add(pa.array(column, pa.string()))
    return keys


def test_each_row_after_the_first_of_its_key_is_counted():
    keys = counted(["a", "b", "a", None], ["a", None, "c"], [])
    assert keys.summary() == {"num_rows": 2, "is_exact": True}


@pytest.mark.parametrize("most", [1 << 20, 100], ids=["exact", "sampled"])
def test_the_count_is_the_same_for_any_partition_of_the_rows(monkeypatch, most):
    monkeypatch.setattr(duplicates, "MAX_KEYS", most)
    rows = [f"{number % 800:040x}" for number in range(1000)]
    whole = counted(rows).to_state()
    for seed in range(3):
        order = random.Random(seed)
        order.shuffle(rows)
        cuts = sorted(order.sample(range(1000), 4))
        merged = None
        for start, stop in zip([0, *cuts], [*cuts, 1000], strict=True):
            merged = merge_keys(counted(rows[start:stop]).to_state(), merged)
        assert merged == whole


def test_many_keys_are_sampled_and_the_count_is_estimated(monkeypatch):
    monkeypatch.setattr(duplicates, "MAX_KEYS", 1000)
    keys = counted(*([f"{number % 16_000}" for number in range(20_000)] for _ in range(1)))
    assert len(keys.kept()[0]) == 1000
    found = keys.summary()
    assert not found["is_exact"]
    assert found["num_rows"] == pytest.approx(4000, rel=0.15)
    (anomaly,) = duplicate_anomalies({"column": "id", **found})
    assert anomaly.reason.startswith("about ")


def test_distinct_keys_are_not_an_anomaly():
    assert duplicate_anomalies(counted(["a", "b"]).summary()) == []
    assert duplicate_anomalies(None) == []
