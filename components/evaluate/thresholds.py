"""The gate: what a model must reach, and whether it did."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOWER_IS_BETTER = frozenset({"loss"})
EXAMPLE = '{"accuracy": 0.985}'


class ThresholdError(ValueError):
    """The thresholds cannot be read, or ask for a metric that does not exist."""


@dataclass(frozen=True)
class Judgement:
    """Whether a model passed, and one reason for each threshold."""

    is_passed: bool
    reasons: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`passed` or `failed`: the fixed words that the pipeline's condition compares."""
        return "passed" if self.is_passed else "failed"


def parse_thresholds(text: str) -> dict[str, float]:
    """Reads thresholds by metric from one JSON object, strictly; `{}` sets none.

    Raises:
        ThresholdError: it is not a JSON object of finite numbers, or names a metric twice.
    """
    try:
        thresholds = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=float
        )
    except json.JSONDecodeError as error:
        raise ThresholdError(
            f"thresholds {text!r} is no JSON: {error}; such as {EXAMPLE}"
        ) from error
    if not isinstance(thresholds, dict):
        raise ThresholdError(f"thresholds {text!r} is no JSON object; such as {EXAMPLE}")
    for name, value in thresholds.items():
        if not isinstance(value, float) or not math.isfinite(value):
            raise ThresholdError(f"the threshold of {name} is {value!r}; it must be a number")
    return thresholds


def judge(metrics: Mapping[str, float], thresholds: Mapping[str, float]) -> Judgement:
    """Compares every threshold with its metric: at least, or for a loss at most.

    Raises:
        ThresholdError: a threshold's metric does not exist; names those that do.
    """
    unknown = sorted(set(thresholds) - set(metrics))
    if unknown:
        known = ", ".join(sorted(metrics))
        raise ThresholdError(
            f"thresholds name {unknown[0]!r}; this workload's metrics are: {known}"
        )
    if not thresholds:
        return Judgement(is_passed=True, reasons=("no threshold is set",))
    results = [_compare(name, metrics[name], limit) for name, limit in thresholds.items()]
    return Judgement(
        is_passed=all(is_met for is_met, _ in results),
        reasons=tuple(reason for _, reason in results),
    )


def format_metric(value: float) -> str:
    """A metric for people: four decimals, or as many as there are when it is tiny."""
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.3g}"  # noqa: PLR2004


def _compare(name: str, value: float, limit: float) -> tuple[bool, str]:
    if math.isnan(value):
        return False, f"{name} is not a number, required is {limit:g}"
    shown = format_metric(value)
    if float(shown) == limit != value:  # rounding would say "0.985 is below 0.985"
        shown = repr(value)
    if name in LOWER_IS_BETTER:
        is_met = value <= limit
        return is_met, f"{name} {shown} is {'at most' if is_met else 'above'} {limit:g}"
    is_met = value >= limit
    return is_met, f"{name} {shown} is {'at least' if is_met else 'below'} {limit:g}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ThresholdError(f"thresholds name {repeated[0]!r} twice")
    return dict(pairs)


def _no_constant(name: str) -> float:
    raise ThresholdError(f"thresholds hold {name}; they must be numbers")
