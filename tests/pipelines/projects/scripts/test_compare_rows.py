"""Rows that reached `fit`, compared with the rows of the file."""

import numpy as np
import pytest

from pipelines.projects.scripts.compare_rows import FileColumn, Origin, explain, find_rows

NUM = 600
RANDOM = np.random.default_rng(4)
AGE = np.where(RANDOM.random(NUM) < 0.1, np.nan, RANDOM.integers(18, 90, NUM)).astype(float)
CHARGE = np.round(RANDOM.uniform(5, 99, NUM), 2)
AMOUNT = np.round(RANDOM.lognormal(3, 2, NUM), 2)
PLAN = RANDOM.choice(["basic", "plus", "pro"], NUM).astype(object)
LABEL = RANDOM.choice(["no", "yes"], NUM).astype(object)
COLUMNS = [
    FileColumn("age", AGE),
    FileColumn("charge", CHARGE),
    FileColumn("amount", AMOUNT),
    FileColumn("plan", PLAN),
]
TARGET = FileColumn("churned", LABEL)
CODES = (LABEL == "yes").astype(int)
PART = RANDOM.permutation(NUM)[:450]
FILLED = np.where(np.isnan(AGE), 54.0, AGE)


def scaled(values):
    return ((values - values[PART].mean()) / values[PART].std()).astype(np.float32)


MADE = {
    "same": (CHARGE, Origin("charge")),
    "filled": (FILLED, Origin("age", fill=54.0)),
    "scaled": (
        scaled(CHARGE),
        Origin("charge", mean=CHARGE[PART].mean(), deviation=CHARGE[PART].std()),
    ),
    "cut": (
        np.clip(scaled(CHARGE), -1.5, 1.5),
        Origin("charge", CHARGE[PART].mean(), CHARGE[PART].std(), limits=(-1.5, 1.5)),
    ),
    "hundredth": (CHARGE / 100, Origin("charge", deviation=100.0)),
    "logarithm": (np.log(AMOUNT + 0.001), Origin("amount", log_shift=0.001)),
    "one-hot": (
        (PLAN == "pro").astype(float),
        Origin("plan", table={"basic": 0.0, "plus": 0.0, "pro": 1.0}),
    ),
    "codes": (
        np.searchsorted(["basic", "plus", "pro"], PLAN.astype(str)),
        Origin("plan", table={"basic": 0.0, "plus": 1.0, "pro": 2.0}),
    ),
    "texts": (PLAN, Origin("plan")),
}


@pytest.mark.parametrize("name", MADE)
def test_a_column_is_explained_by_that_of_the_file(name):
    values, wanted = MADE[name]
    origin = explain(values[PART], COLUMNS, PART)
    assert origin is not None
    numbers = [(one.mean, one.deviation, one.fill or 0.0) for one in (origin, wanted)]
    np.testing.assert_allclose(*numbers, rtol=1e-5, atol=1e-5)
    assert (origin.column, origin.log_shift, origin.limits, origin.table) == (
        *(wanted.column, wanted.log_shift, wanted.limits, wanted.table),
    )


def test_values_that_are_not_of_the_file_are_not_explained():
    assert explain(np.sin(CHARGE)[PART], COLUMNS, PART) is None


DAYS = RANDOM.integers(1, 200, NUM)
DATES = np.array([f"2023-{1 + day // 28}-{1 + day % 28}" for day in DAYS], dtype=object)
ROOMS = RANDOM.integers(1, 9, NUM)
OPEN = {
    "squares": (DAYS**2, DAYS.astype(float), False),
    "bins": (DAYS // 50, DAYS.astype(float), False),
    "months": (DAYS // 28, DATES, False),
    "one-hot": (DAYS[PART][0] == DAYS, DAYS.astype(float), True),
    "codes": (np.unique(DAYS, return_inverse=True)[1], DAYS.astype(float), True),
    "squares of few": (ROOMS**2, ROOMS.astype(float), True),
}


@pytest.mark.parametrize("name", OPEN)
def test_a_table_of_numbers_or_times_explains_nothing_if_new_rows_have_others(name):
    made, values, is_explained = OPEN[name]
    origin = explain(made.astype(float)[PART], [FileColumn("of", values)], PART)
    assert (origin is not None) == is_explained


WHOLE = np.flatnonzero(~np.isnan(AGE))
ORDERS = {
    "of the file": (np.arange(NUM), []),
    "the first ones": (np.arange(400), []),
    "the last ones": (np.arange(200, NUM), []),
    "of a part": (PART, [PART]),
    "the last ones of a part": (PART[50:], [PART]),
    "a part of a part": (PART[::-1][:300], [np.arange(450)[::-1], PART]),
    "of whole rows": (WHOLE[::2], [np.arange(len(WHOLE))[::2]]),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("kinds", [("scaled", "logarithm", "one-hot"), ("cut", "filled")])
def test_rows_are_found_in_recorded_orders(name, kinds):
    rows, orders = ORDERS[name]
    recorded = [MADE[kind][0][rows] for kind in kinds]
    found = find_rows(recorded, CODES[rows], COLUMNS, TARGET, orders=orders)
    assert found is not None
    assert (found == rows).all()


def test_rows_of_an_unknown_order_are_not_found():
    assert find_rows([CHARGE[PART], AMOUNT[PART]], CODES[PART], COLUMNS, TARGET) is None


def test_ids_that_a_script_numbers_are_found():
    ids = RANDOM.integers(100, 160, (NUM, 2)).astype(float)
    columns = [FileColumn("user", ids[:, 0]), FileColumn("film", ids[:, 1])]
    numbered = [np.searchsorted(np.unique(column), column)[PART] for column in ids.T]
    found = find_rows(numbered, CODES[PART], columns, TARGET, orders=[PART])
    assert found is not None
    assert (found == PART).all()


def test_rows_with_another_label_are_not_those_of_the_file():
    shuffled = RANDOM.permutation(CODES)
    assert find_rows([CHARGE, AMOUNT], shuffled, COLUMNS, TARGET) is None


def test_a_one_hot_label_is_one_of_the_file():
    found = find_rows([CHARGE[PART]], np.eye(2)[CODES][PART], COLUMNS, TARGET, orders=[PART])
    assert found is not None
    assert (found == PART).all()
