"""The gate: thresholds of metrics, and the verdict on a model."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.errors import StepError
from trainer.json_types import Json

LOWER_IS_BETTER = frozenset({"loss"})
EXAMPLE = '{"accuracy": 0.985}'


@dataclass(frozen=True)
class Judgement:
    """Verdict on a model, with one reason for each threshold."""

    is_passed: bool
    reasons: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`passed` or `failed`, as the condition in the pipeline compares it."""
        return "passed" if self.is_passed else "failed"


def parse_thresholds(text: str) -> dict[str, float]:
    """Parse thresholds by metric from a JSON object; `{}` sets none.

    Raises:
        StepError: It is not a JSON object of finite numbers, or names a metric twice.
    """
    try:
        thresholds = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=float
        )
    except json.JSONDecodeError as error:
        raise StepError(
            f"thresholds is {text!r}, which is not JSON ({error}); write it as {EXAMPLE}"
        ) from error
    if not isinstance(thresholds, dict):
        raise StepError(f"thresholds is {text!r}; it must be a JSON object such as {EXAMPLE}")
    for name, value in thresholds.items():
        if not isinstance(value, float) or not math.isfinite(value):
            raise StepError(f"thresholds.{name} is {value!r}; it must be a finite number")
    return thresholds


def judge(metrics: Mapping[str, float], thresholds: Mapping[str, float]) -> Judgement:
    """Compare metrics with thresholds: a loss must be at most its threshold, others at least.

    Raises:
        StepError: A threshold names an unknown metric; lists the known ones.
    """
    unknown = sorted(set(thresholds) - set(metrics))
    if unknown:
        known = ", ".join(sorted(metrics))
        raise StepError(
            f"thresholds has no metric {unknown[0]!r}; this workload's metrics are: {known}"
        )
    if not thresholds:
        return Judgement(is_passed=True, reasons=("no threshold is set",))
    results = [_compare(name, metrics[name], limit) for name, limit in thresholds.items()]
    return Judgement(
        is_passed=all(is_met for is_met, _ in results),
        reasons=tuple(reason for _, reason in results),
    )


def format_metric(value: float) -> str:
    """Format a metric with four decimals, or three significant digits if it is tiny."""
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.3g}"  # noqa: PLR2004


def _compare(name: str, value: float, limit: float) -> tuple[bool, str]:
    if math.isnan(value):
        return False, f"{name} is not a number; {limit:g} is required"
    shown = format_metric(value)
    if float(shown) == limit != value:  # rounding would say "0.985 is below 0.985"
        shown = repr(value)
    if name in LOWER_IS_BETTER:
        is_met = value <= limit
        return is_met, f"{name} {shown} is {'at most' if is_met else 'above'} {limit:g}"
    is_met = value >= limit
    return is_met, f"{name} {shown} is {'at least' if is_met else 'below'} {limit:g}"


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    names = [name for name, _ in pairs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise StepError(f"thresholds has {repeated[0]!r} twice; keep one")
    return dict(pairs)


def _no_constant(name: str) -> float:
    raise StepError(f"thresholds has the value {name}; it must be a finite number")
