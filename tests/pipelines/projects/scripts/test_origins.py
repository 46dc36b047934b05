"""Columns of x: a line or logarithm of a number, a table of texts, and nothing else."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.projects.scripts.origins import FileColumn, explain, origin_of, origins_of
from pipelines.projects.scripts.script_text import ScriptFault

NUM_ROWS = 60
sizes = st.floats(1e-3, 1e6)
seeds = st.integers(0, 99)


def column_of(values, name="age"):
    array = np.array(values, str if isinstance(values[0], str) else float)
    return FileColumn(name, name, array, np.arange(1, len(array) + 1))


def ages(seed):
    return np.random.default_rng(seed).integers(18, 65, NUM_ROWS).astype(float)


FUNCTIONS = {
    "itself": lambda ages: ages,
    "log": np.log,
    "log1p": np.log1p,
    "log10": np.log10,
    "log2": lambda ages: np.log2(ages + 1),
}


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from(sorted(FUNCTIONS)), sizes, st.sampled_from([1, -1]), st.floats(-9, 9))
def test_a_line_goes_on_beyond_the_values_of_the_file(seed, name, scale, sign, offset):
    """Values are float32, as in x; an age of 80 is on the line."""
    known = ages(seed)
    make = FUNCTIONS[name]
    mean, deviation = make(known).mean() + offset, sign * scale
    x = ((make(known) - mean) / deviation).astype(np.float32)
    origin = origin_of(x, column_of(known))
    made = float(eval(origin.made, {"keras": keras, "inputs": {"age": 80.0}}))
    wanted = (make(80.0) - mean) / deviation
    assert made == pytest.approx(wanted, rel=1e-4, abs=1e-4 * (abs(offset) + 9) / scale)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda ages: np.digitize(ages, [25, 40, 55]), "keras.layers.Discretization"),
        (lambda ages: ages**2 / 100, "keras.layers.Lambda"),
        (lambda ages: np.clip(ages, 20, 60), "row "),
        (lambda ages: (ages == 30).astype(int), "row "),
        (lambda ages: ages + (ages == 64) * 0.01, "row "),
    ],
    ids=["bins", "square", "cut", "one-hot", "nearly"],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_number_never_gets_a_table(make, told, seed):
    known = np.concatenate([ages(seed), [30, 64]])
    x = make(known).astype(np.float32)[:, None]
    with pytest.raises(ScriptFault, match=told):
        origins_of(x, ["x_1"], [column_of(known)], ())


def test_the_first_row_that_is_off_every_line_is_named():
    columns = [column_of([1, 2, 3, 4, 5]), column_of([0, 1, 1, 0, 1], "sold")]
    told = "^squared of x is no column of the file.* row 3 of the file, 9.0 in x; give"
    with pytest.raises(ScriptFault, match=told):
        origins_of(np.array([[1.0], [4], [9], [16], [25]]), ["squared"], columns, ())


@settings(max_examples=40, deadline=None)
@given(seeds, st.lists(st.integers(-9, 9), min_size=3, max_size=3))
def test_texts_have_a_table(seed, numbers):
    texts = np.array(["basic", "plus", ""])[np.random.default_rng(seed).integers(0, 3, NUM_ROWS)]
    x = np.select([texts == "basic", texts == "plus"], numbers[:2], numbers[2]).astype("float32")
    origin = origin_of(x, column_of(list(texts), "plan"))
    if len({*numbers}) == 1:
        assert origin is None
        return
    assert dict(zip(origin.column.distinct[0], origin.table, strict=True)) == {
        "": numbers[2],
        "basic": numbers[0],
        "plus": numbers[1],
    }


@pytest.mark.parametrize(
    "texts",
    [
        [f"customer {row // 3}" for row in range(NUM_ROWS)],
        [f"2024-0{1 + row % 9}-01" for row in range(NUM_ROWS)],
    ],
    ids=["many", "dates"],
)
def test_a_table_of_texts_is_no_chance(texts):
    _, codes = np.unique(texts, return_inverse=True)
    assert origin_of((codes % 2).astype(float), column_of(texts)) is None


def test_a_missing_value_has_one_replacement():
    known = ages(1)
    known[[3, 9]] = np.nan
    column = column_of(known)
    filled = np.nan_to_num(known, nan=33.5)
    assert '(inputs["age"]), -0.65, (inputs' in origin_of((filled - 40) / 10, column).made
    assert origin_of(np.where(np.isnan(known), np.arange(NUM_ROWS), known), column) is None


def test_columns_alike_are_told_apart_by_their_names():
    known = ages(2)
    columns = [column_of(known, "celsius"), column_of(known * 1.8 + 32, "fahrenheit")]
    x = (known - 40) / 10
    with pytest.raises(ScriptFault, match="celsius and fahrenheit alike: give x as a DataFrame"):
        explain(x, columns, name="column 0")
    assert explain(x, columns, name="fahrenheit").column is columns[1]
    assert explain(known, columns, name="column 0").column is columns[0]
