"""What a column of examples is like, found in one pass and merged in any order.

`statistics.json` in an examples folder:

    {"workload": "taxi",
     "splits": {"train": {"num_examples": N, "features": {NAME: FEATURE, …}}, "eval": …, "test": …}}

A FEATURE of a table has

    "type"         "FLOAT", "INT" or "STRING" (a bytes_list of UTF-8 in the examples)
    "num_present"  examples that have the feature; "num_missing": those that do not
    "num_unique"   different values; a lower bound if "is_exact" is false
    "is_exact"     are num_unique and top_values exact? (Up to MAX_BINS numbers, MAX_STRINGS texts.)
    "top_values"   [[value, count], …], the most frequent first, at most NUM_TOP_VALUES

and, if it is a number (null where no example has the feature),

    "min", "max", "mean", "std"  (std of the population)
    "num_zeros"    values that are 0
    "quantiles"    101 numbers: quantiles[i] is the i-th percentile, quantiles[50] the median
    "histogram"    {"edges": [21 numbers], "counts": [20 numbers]}: equal widths from min to max

For images, "features" has one entry, `label`, of the type "INT" with the classes in "top_values",
and the split has "pixels": {"mean": [a number for each channel], "std": […]} of bytes 0 to 255.
"""

from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.statistics.texts import Strings
from trainer.json_types import Json


def from_state(state: Json) -> Numbers | Strings:
    """What `to_state` of either class has made."""
    return Strings.from_state(state) if state["type"] == "STRING" else Numbers.from_state(state)


def merge_states(one: Json, other: Json) -> Json:
    """Merge the states of features, by name."""
    merged = {**other, **one}
    for name in one.keys() & other.keys():
        first, second = from_state(one[name]), from_state(other[name])
        first.merge(second)  # type: ignore[arg-type]
        merged[name] = first.to_state()
    return merged
