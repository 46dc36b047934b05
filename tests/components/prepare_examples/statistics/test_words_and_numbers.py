"""Counts of tokens and of numbers, in bounded memory."""

import os
import pickle
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from components.prepare_examples.statistics import numbers, states
from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.statistics.states import Lists, Words, new_statistic
from trainer.workloads.encoding.lookups import split_tokens

pytestmark = pytest.mark.fast

TEXTS = ["It's  GOOD,\tgood!", "", "Größe ÄÖ 1.5", " a-b\n c ", "ΣΑΣ", "no_break"]


def test_tokens_are_those_of_the_model():
    found = Words()
    found.add(pa.array([*TEXTS, None]))
    expected = [token for text in TEXTS for token in split_tokens(text)]
    assert found.counts == {token: expected.count(token) for token in expected}
    assert (found.num_present, found.num_missing) == (len(TEXTS), 1)


def test_rare_tokens_are_dropped_beyond_the_limit(monkeypatch):
    monkeypatch.setattr(states, "MAX_TOKENS", 10)
    found = Words(num_listed=5)
    found.add(pa.array([" ".join(f"w{n}" for n in range(n + 1)) for n in range(30)]))
    summary = found.summary()
    assert not summary["is_exact"]
    assert summary["tokens"] == [[f"w{n}", 30 - n] for n in range(5)]
    assert summary["num_unique"] == 10


@pytest.mark.parametrize("kind", ["float", "int", "text", "words"])
def test_statistics_of_any_kind_survive_the_way_through_beam(kind):
    values = {"float": [1.5, 2.5], "int": [1, 2], "text": ["a", "b"], "words": ["a b", "b"]}[kind]
    one = new_statistic(kind, is_list=True)
    one.add(pa.array([values, [], None, values[:1]]))
    assert isinstance(one, Lists)
    sent = pickle.loads(pickle.dumps(one))
    sent.merge(one)
    merged = sent.summary()
    assert merged["is_list"]
    counts = [merged[name] for name in ("num_present", "num_missing", "num_values")]
    assert counts == [6, 2, 6]
    assert (merged["min_length"], merged["max_length"]) == (0, 2)


def test_long_lists_are_counted_in_parts(monkeypatch):
    column = pa.array([[0.5, 2.0, 0.5], [], [4.0, 0.5]])
    whole = Lists(Numbers("FLOAT"))
    whole.add(column)
    monkeypatch.setattr(states, "MAX_VALUES", 2)
    counted = Mock(wraps=Numbers("FLOAT"))
    Lists(counted).add(column)
    assert [len(call.args[0]) for call in counted.add.call_args_list] == [2, 2, 1]
    assert Lists(counted).values.summary() == whole.values.summary()


def test_of_many_floats_those_that_occur_once_are_no_top_values():
    column = pa.array([*map(float, range(9)), 3.0, 5.0, 5.0])
    listed = {}
    for most in (9, 8):
        counted = Numbers("FLOAT", num_listed=most)
        counted.add(column)
        listed[most] = counted.summary()["top_values"]
    assert len(listed[9]) == 9
    assert listed[8] == [[5.0, 3], [3.0, 2]]


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e12])
def test_as_few_bits_are_dropped_as_needed(monkeypatch, scale):
    monkeypatch.setattr(numbers, "MAX_BINS", 50)
    values = np.random.default_rng(0).normal(0, scale, 3000)
    found = Numbers("FLOAT")
    found.add(pa.array(values))
    bins, counts = found.bins()
    assert len(bins) <= 50
    assert counts.sum() == 3000
    assert (np.diff(bins) > 0).all()
    bits = np.int64(found.dropped_bits - 1)
    assert len(np.unique((values.view(np.int64) >> bits) << bits)) > 50


@pytest.mark.parametrize("first", [0, 17_000_000_000, -(2**52)])
def test_moments_of_ids_are_exact_however_large_they_are(first):
    ids = Numbers("INT")
    for start in (0, 30):
        ids.add(pa.array(range(first + start, first + start + 30)))
    summary = ids.summary()
    assert summary["mean"] == first + 29.5
    assert summary["std"] == pytest.approx(((60**2 - 1) / 12) ** 0.5, rel=1e-12)


def test_sums_do_not_depend_on_the_number_of_cores():
    code = (
        "import numpy as np, pyarrow as pa\n"
        "from components.prepare_examples.statistics.numbers import Numbers\n"
        "found = Numbers('FLOAT')\n"
        "found.add(pa.array(np.random.default_rng(0).normal(size=100_000)))\n"
        "print(found.total, found.total_squares)\n"
    )
    sums = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(sums) == 1
