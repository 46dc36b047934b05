"""How far the train split has moved from an earlier run's: L-infinity, Jensen-Shannon, PSI.

Each compares shares of values: of the texts, or of the intervals between the earlier run's deciles.
Missing is one more value, so a feature that is missing more often has drifted too.
"""

import bisect
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.prepare_examples.anomalies import WARNING, Anomaly
from components.prepare_examples.errors import DataError

STATISTICS = "statistics.json"
# PSI: below 0.1 nothing, above 0.25 a marked shift, by the custom of credit scoring.
THRESHOLDS = {"l_infinity": 0.1, "jensen_shannon": 0.05, "psi": 0.25}
MAX_LISTED = 100  # numbers with more values are compared by intervals
LEAST_SHARE = 1e-4  # PSI is infinite for an empty interval

Json = dict[str, Any]


@dataclass(frozen=True)
class Drift:
    """The distances of one feature; Jensen-Shannon in bits, 0 to 1."""

    feature: str
    l_infinity: float
    jensen_shannon: float
    psi: float


def statistics_file(path: str | Path) -> Path:
    """Return the file of a baseline, which may be named by its examples folder."""
    return Path(path, STATISTICS) if Path(path).is_dir() else Path(path)


def read_baseline(path: str | Path) -> Json:
    """The statistics of an earlier run: the file, or its examples folder.

    Raises:
        DataError: there are none.
    """
    file = statistics_file(path)
    try:
        content: Json = json.loads(file.read_text())
        content["splits"]["train"]["features"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"baseline {file} holds no statistics of an earlier run: {error}"
        ) from error
    return content


def measure_drift(statistics: Json, baseline: Json) -> list[Drift]:
    """The distances of each feature that both have."""
    before = baseline["splits"]["train"]["features"]
    after = statistics["splits"]["train"]["features"]
    return [
        _distances(name, *_shares(before[name], after[name]))
        for name in after
        if name in before and before[name]["type"] == after[name]["type"]
    ]


def drift_anomalies(found: list[Drift], thresholds: Mapping[str, float]) -> list[Anomaly]:
    """The distances beyond their thresholds; a train split that has moved is a warning."""
    return [
        Anomaly(WARNING, "train", drift.feature, f"{name} is {value:.3f}, above {threshold}")
        for drift in found
        for name, threshold in thresholds.items()
        for value in [getattr(drift, name)]
        if value > threshold
    ]


def _shares(before: Json, after: Json) -> tuple[list[float], list[float]]:
    if _has_all_values(before) and _has_all_values(after):
        return _of_values(before, after)
    return _of_intervals(before, after)


def _has_all_values(feature: Json) -> bool:
    if feature["type"] == "STRING":
        return True
    num_unique = int(feature["num_unique"])
    return num_unique == len(feature["top_values"]) and num_unique <= MAX_LISTED


def _of_values(before: Json, after: Json) -> tuple[list[float], list[float]]:
    counts = [dict(map(tuple, feature["top_values"])) for feature in (before, after)]
    values = sorted({*counts[0], *counts[1]}, key=str)
    return tuple(  # type: ignore[return-value]
        _normalized([*(count.get(value, 0) for value in values), feature["num_missing"]])
        for count, feature in zip(counts, (before, after), strict=True)
    )


def _of_intervals(before: Json, after: Json) -> tuple[list[float], list[float]]:
    """Shares below each different decile of the earlier run, from the percentiles of both."""
    edges = sorted(set((before["quantiles"] or [])[10:100:10]))
    return tuple(  # type: ignore[return-value]
        _normalized([*_counts(feature, edges), feature["num_missing"]])
        for feature in (before, after)
    )


def _counts(feature: Json, edges: list[float]) -> list[float]:
    quantiles = feature["quantiles"] or []
    below = [bisect.bisect_right(quantiles, edge) / max(len(quantiles), 1) for edge in edges]
    shares = [high - low for low, high in zip([0.0, *below], [*below, 1.0], strict=True)]
    return [share * feature["num_present"] for share in shares]


def _normalized(counts: list[float]) -> list[float]:
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]


def _distances(name: str, before: list[float], after: list[float]) -> Drift:
    pairs = list(zip(before, after, strict=True))
    floored = [(max(p, LEAST_SHARE), max(q, LEAST_SHARE)) for p, q in pairs]
    return Drift(
        feature=name,
        l_infinity=max(abs(p - q) for p, q in pairs),
        jensen_shannon=sum(_divergence(p, q) + _divergence(q, p) for p, q in pairs) / 2,
        psi=sum((q - p) * math.log(q / p) for p, q in floored),
    )


def _divergence(p: float, q: float) -> float:
    return p * math.log2(2 * p / (p + q)) if p else 0.0
