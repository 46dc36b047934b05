"""Statistics of columns as plain values, merged in any order.

`statistics.json` in an examples folder:

    {"workload": "taxi",
     "splits": {"train": {"num_examples": N, "features": {NAME: FEATURE, …}}, "eval": …, "test": …}}

A FEATURE of a table has

    "type"         "FLOAT", "INT" or "STRING" (a bytes_list of UTF-8 in the examples)
    "num_present"  number of examples with the feature; "num_missing": without it
    "num_unique"   number of distinct values; a lower bound if "is_exact" is false
    "is_exact"     whether num_unique and top_values are (up to MAX_BINS numbers, MAX_STRINGS texts)
    "top_values"   [[value, count], …], the most frequent first, at most NUM_TOP_VALUES

and, for numbers (null if no example has the feature),

    "min", "max", "mean", "std"  (std of the population)
    "num_zeros"    number of values that are 0
    "quantiles"    101 numbers: quantiles[i] is the i-th percentile, quantiles[50] the median
    "histogram"    {"edges": [21 numbers], "counts": [20 numbers]}: equal widths from min to max

For images, "features" has the single entry `label`, of type "INT" with the classes in "top_values",
and the split has "pixels": {"mean": [a number per channel], "std": […]}, of bytes 0 to 255.
"""

from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.statistics.texts import Strings
from trainer.json_types import Json


def from_state(state: Json) -> Numbers | Strings:
    """Return the instance of a state from `to_state` of either class."""
    return Strings.from_state(state) if state["type"] == "STRING" else Numbers.from_state(state)


def merge_states(one: Json, other: Json) -> Json:
    """Return the merged states of features, by name."""
    merged = {**other, **one}
    for name in one.keys() & other.keys():
        first, second = from_state(one[name]), from_state(other[name])
        first.merge(second)  # type: ignore[arg-type]
        merged[name] = first.to_state()
    return merged
