"""A verdict that is as good as perfect because of a column names the column."""

import numpy as np
import pytest

from components.evaluate import leaks
from components.evaluate.leaks import check_leaks
from trainer.workloads import Binary, Category, Multilabel, Number, Regression, Table, Timestamp

NUM_ROWS = 900
DICE = np.random.default_rng(2)
LEFT = DICE.random(NUM_ROWS) < 0.3
PRICE = DICE.lognormal(3, 1, NUM_ROWS)
BINARY, NUMBER = Binary("left", positive="yes"), Regression("price")


class Column:
    """A column as TensorFlow returns it."""

    def __init__(self, values):
        self.numpy = lambda: np.asarray(values)


def texts(values):
    return np.array([str(value).encode() for value in values], object)


AGES = DICE.integers(18, 80, NUM_ROWS)
NOISY = LEFT ^ (np.arange(NUM_ROWS) % 450 == 7)
COLUMNS = {
    "empty for a class": (np.where(LEFT, np.nan, DICE.random(NUM_ROWS)), "rows that miss it"),
    "nearly a class": (texts(np.where(NOISY, "gone", "")), "by the rows that miss it"),
    "codes": (
        texts([f"{at % 44}{'FAIL' if left else ''}" for at, left in enumerate(LEFT)]),
        "alone",
    ),
    "codes with a few others": (
        texts([f"{at % 44}{left}" for at, left in enumerate(NOISY)]),
        "alone",
    ),
    "a threshold": (np.where(LEFT, 50, 0) + DICE.random(NUM_ROWS) * 50, "alone"),
    "a good feature": (np.where(LEFT, 20, 0) + DICE.random(NUM_ROWS) * 50, ""),
    "names": (texts(range(NUM_ROWS)), ""),
}


@pytest.fixture
def check(monkeypatch):
    """Check a workload with rows of the train split."""

    def run(workload, columns, labels, **metrics):
        rows = {name: Column(values) for name, values in columns.items()}
        monkeypatch.setattr(leaks, "read_some", lambda *_, **__: (rows, Column(labels)))
        return [one.text for one in check_leaks("examples", workload, metrics)]

    return run


@pytest.mark.parametrize("case", COLUMNS)
def test_a_perfect_verdict_names_the_column_that_tells_the_label(check, case):
    values, words = COLUMNS[case]
    feature = Category("x") if values.dtype == object else Number("x")
    workload = Table([feature, Number("age")], label=BINARY)
    columns = {"x": values, "age": AGES.astype("float32")}
    texts = check(workload, columns, LEFT.astype(int), auc=0.9999)
    assert len(texts) == bool(words)
    assert all(text.startswith("auc 0.9999, since x tells left ") for text in texts)
    assert words in "".join(texts)
    assert not check(workload, columns, LEFT.astype(int), auc=0.98)


def test_the_parts_of_a_time_are_its_column(check):
    time = Timestamp("closed_on", parts=("month", "hour"))
    workload = Table([time, Number("age")], label=BINARY)
    columns = {"age": AGES}
    for part in workload.used[:-1]:
        columns[part.name] = np.where(LEFT, part.missing_value, AGES % 12 + 1)
    [text] = check(workload, columns, LEFT.astype(int), auc=1.0)
    assert text.startswith("auc 1.0000, since closed_on tells left by the rows that miss it;")


@pytest.mark.parametrize(
    ("values", "is_told"),
    [(3 * PRICE + 1, True), (np.log(PRICE), True), (PRICE * DICE.random(NUM_ROWS), False)],
    ids=["line", "order", "noise"],
)
def test_a_line_or_the_order_of_a_number_is_named(check, values, is_told):
    workload = Table([Number("x"), Number("age")], label=NUMBER)
    columns = {"x": values, "age": np.where(AGES > 70, np.nan, AGES)}
    assert bool(check(workload, columns, PRICE, r2=0.999, rmse=0.1)) == is_told


def test_other_labels_are_not_looked_at(check):
    workload = Table([Number("x")], label=Multilabel("tags", values=("a", "b")))
    assert not check(workload, {"x": AGES}, np.zeros((NUM_ROWS, 2)), auc=1.0)
