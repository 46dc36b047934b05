"""Drift of the train split from an earlier run's: the population stability index, PSI.

It compares shares of values: of texts, or of the intervals between the earlier run's deciles.
Missing counts as a value, so a feature that is missing more often has drifted too.
"""

import bisect
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.statistics.schema import WARNING, Anomaly
from components.shared.text.value_text import number_text, percent_text, time_text
from trainer import Json

STATISTICS = "statistics.json"
NOTICEABLE, MARKED = 0.1, 0.25  # shifts, by the convention of credit scoring
MAX_LISTED = 100  # numbers with more values are compared by intervals
LEAST_SHARE = 1e-4  # PSI is infinite for an empty interval

MISSING = "missing"

Share = tuple[str, float, float]  # a value, its share before and after


@dataclass(frozen=True)
class Drift:
    """The drift of one feature.

    `words` describes the value, or interval of values, whose share changed most.
    """

    feature: str
    psi: float
    words: str


def statistics_file(path: str | Path) -> Path:
    """Return the file of a baseline, given by its path or by its examples folder."""
    return Path(path, STATISTICS) if Path(path).is_dir() else Path(path)


def read_baseline(path: str | Path) -> Json:
    """Return the statistics of an earlier run, from the file or its examples folder.

    Raises:
        DataError: the file is missing or invalid.
    """
    file = statistics_file(path)
    try:
        content: Json = json.loads(file.read_text())
        content["splits"]["train"]["features"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"baseline {file} is not the statistics.json of an earlier run ({error!r}); name one in"
            " the prepare-examples/examples folder of a run"
        ) from error
    return content


def measure_drift(statistics: Json, baseline: Json) -> list[Drift]:
    """Return the drift of each common feature, the largest first."""
    before = baseline["splits"]["train"]["features"]
    after = statistics["splits"]["train"]["features"]
    drifts = [
        drift_of(name, shares_of(before[name], after[name]))
        for name in after
        if name in before and before[name]["type"] == after[name]["type"]
    ]
    return sorted(drifts, key=lambda of: (-np.nan_to_num(of.psi, nan=np.inf), of.feature))


def beyond(drifts: list[Drift], threshold: float) -> list[Drift]:
    """Return the features whose drift is above a threshold, or is not a number."""
    return [drift for drift in drifts if not drift.psi <= threshold]


def drift_anomalies(drifts: list[Drift], threshold: float) -> list[Anomaly]:
    """Return a warning for each drift above a threshold."""
    return [
        Anomaly(
            WARNING,
            "train",
            drift.feature,
            f"psi is {drift.psi:.3f}, above {threshold} ({drift.words})",
        )
        for drift in beyond(drifts, threshold)
    ]


def shares_of(before: Json, after: Json) -> list[Share]:
    """Return the share of each value, or interval of values, in two FEATUREs of one type.

    Intervals are those between the distinct deciles of the earlier one; the percentiles of both
    tell how many values are in them.
    """
    both = before, after
    if all(map(has_all_values, both)):
        listed = [dict(map(tuple, feature["top_values"])) for feature in both]
        values = sorted({*listed[0], *listed[1]}, key=str)
        names = list(map(str, values))
        counts = [[known.get(value, 0) for value in values] for known in listed]
    else:
        edges = sorted(set((before["quantiles"] or [])[10:100:10]))
        names = _intervals(edges, are_times=after.get("is_time", False))
        counts = [_counts(feature, edges) for feature in both]
    shares = [
        _normalized([*own, feature["num_missing"]])
        for own, feature in zip(counts, both, strict=True)
    ]
    return list(zip([*names, MISSING], *shares, strict=True))


def has_all_values(feature: Json) -> bool:
    """Return whether the statistics list every value, and of a number few."""
    if feature["type"] == "STRING":
        return True
    num_unique = int(feature["num_unique"])
    return num_unique == len(feature["top_values"]) and num_unique <= MAX_LISTED


def _intervals(edges: list[float], *, are_times: bool) -> list[str]:
    if not edges:
        return ["present"]
    shown = list(map(time_text if are_times else written, edges))
    between = [f"{low} to {high}" for low, high in itertools.pairwise(shown)]
    return [f"up to {shown[0]}", *between, f"above {shown[-1]}"]


def written(value: float) -> str:
    """Return a number as people write it; whole numbers, which may be names, in full."""
    return f"{value:,}" if isinstance(value, int) else number_text(value)


def _counts(feature: Json, edges: list[float]) -> list[float]:
    quantiles = feature["quantiles"] or []
    below = [bisect.bisect_right(quantiles, edge) / max(len(quantiles), 1) for edge in edges]
    shares = [high - low for low, high in zip([0.0, *below], [*below, 1.0], strict=True)]
    return [share * feature["num_present"] for share in shares]


def _normalized(counts: list[float]) -> list[float]:
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]


def drift_of(name: str, shares: list[Share]) -> Drift:
    """Return the drift between the shares before and after."""
    value, before, after = max(shares, key=_change)
    distance = psi(*(np.array([share[at] for share in shares]) for at in (1, 2)))
    words = f"{name}: {value}: {percent_text(before).removesuffix(' %')} → {percent_text(after)}"
    return Drift(feature=name, psi=float(distance), words=words)


def psi(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
    """Return the index between shares [..., values], which sum to 1."""
    p, q = np.maximum(before, LEAST_SHARE), np.maximum(after, LEAST_SHARE)
    return np.asarray(((q - p) * np.log(q / p)).sum(axis=-1))


def _change(share: Share) -> tuple[float, bool]:
    """Return the size of a change; of two equal ones, the growing share ranks first."""
    _, before, after = share
    return round(abs(before - after), 6), after > before
