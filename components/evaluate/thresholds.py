"""The gate: thresholds of metrics, and the verdict on a model.

A threshold has directions, as in {"rmse": {"at_most": 3.2}}. A plain number is the least value of a
metric, or the largest of one where lower is better; of metrics of the user's own that is not known.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.shared.text.value_text import number_text
from trainer import Json
from trainer.config.settings import MOST
from trainer.errors import ConfigError, did_you_mean
from trainer.metrics.directions import HIGHER_IS_BETTER, LOWER_IS_BETTER, RANGES

AT_LEAST, AT_MOST = "at_least", "at_most"
DIRECTIONS = (AT_LEAST, AT_MOST)
_TINY, _LARGE = 1e-3, 1e3
EXAMPLE = '{"accuracy": 0.985, "loss": {"at_most": 0.1}}'


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The least or the largest value that a metric of a good model may have.

    The direction is "" if it is not given, of a metric that no kind of label has.
    """

    metric: str
    direction: str
    value: float

    def __str__(self) -> str:
        return f"{self.direction.replace('_', ' ')} {_limit_text(self.value)}"

    def margin(self, value: float) -> float:
        """Return the distance of a metric from the limit, negative if the limit is not met."""
        return self.value - value if self.direction == AT_MOST else value - self.value


@dataclass(frozen=True, kw_only=True)
class Check:
    """One condition of the verdict, in numbers and in words.

    `limit` is the least or the largest value; both are None for a condition without numbers.
    `is_sure` is False if chance may have decided a condition that is met.
    """

    name: str
    is_ok: bool
    text: str
    value: float | None = None
    limit: float | None = None
    is_sure: bool = True

    def to_json(self) -> Json:
        """Return the check for evaluation.json."""
        return {
            "name": self.name,
            "value": self.value,
            "limit": self.limit,
            "ok": self.is_ok,
            "sure": self.is_sure,
            "text": self.text,
        }


@dataclass(frozen=True)
class Judgement:
    """Verdict on a model, with one reason for each condition."""

    is_passed: bool
    reasons: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`passed` or `failed`, as the condition in the pipeline compares it."""
        return "passed" if self.is_passed else "failed"


def parse_thresholds(text: str) -> tuple[Limit, ...]:
    """Return the limits of a JSON object of thresholds by metric; `{}` sets none.

    Raises:
        ConfigError: it is not a JSON object of thresholds, or names a metric twice.
    """
    try:
        thresholds = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"thresholds is {text!r}, which is not JSON ({error}); write it as {EXAMPLE}"
        ) from error
    if not isinstance(thresholds, dict):
        raise ConfigError(f"thresholds is {text!r}; it must be a JSON object such as {EXAMPLE}")
    return read_limits(thresholds)


def read_limits(thresholds: Mapping[str, Any]) -> tuple[Limit, ...]:
    """Return the limits that thresholds set.

    Raises:
        ConfigError: a threshold is neither a number nor an object of numbers by direction.
    """
    limits = []
    for metric, threshold in thresholds.items():
        for direction, value in _directions(metric, threshold).items():
            _check(metric, direction, value)
            limits.append(Limit(metric=metric, direction=direction, value=float(value)))
    return tuple(limits)


def with_threshold(thresholds: Mapping[str, Any], key: str, value: Any) -> Json:
    """Return thresholds with another one; `key` is a metric, or METRIC.at_most or .at_least."""
    metric, _, direction = key.partition(".")
    if not direction:
        return {**thresholds, metric: value}
    limits = dict(_directions(metric, thresholds[metric])) if metric in thresholds else {}
    limits.pop("", None)
    return {**thresholds, metric: {**limits, direction: value}}


def check_metrics(limits: Sequence[Limit], known: Collection[str], *, owner: str) -> None:
    """Check that a model has the metrics of all limits.

    Raises:
        ConfigError: it lacks one; lists the metrics of `owner`. Or it is not known whether a
            high or a low value is good.
    """
    for limit in limits:
        if limit.metric not in known:
            raise ConfigError(
                f"thresholds.{limit.metric}: {owner} has no such metric;"
                f"{did_you_mean(limit.metric, known)} it has {', '.join(known)}"
            )
        check_direction(limit)


def check_direction(limit: Limit) -> None:
    """Raise ConfigError if a limit has no direction."""
    if not limit.direction:
        raise ConfigError(
            f"thresholds.{limit.metric} is {_plain(limit.value)}; say in which direction, as"
            f" {{{AT_LEAST}: {_plain(limit.value)}}} or {{{AT_MOST}: {_plain(limit.value)}}}"
        )


def check_limits(
    metrics: Mapping[str, float],
    limits: Sequence[Limit],
    *,
    why_undefined: Callable[[str], str] = lambda metric: "it is not a finite number",
    bases: Mapping[str, str] | None = None,
) -> list[Check]:
    """Return a check for each limit, in their order.

    A value that is not finite meets no limit; `why_undefined` returns why it is none. `bases`
    are the examples that a metric was measured on, in words, unless they are the test split.

    Raises:
        ConfigError: a limit names an unknown metric; lists the known ones.
    """
    check_metrics(limits, metrics, owner="the model")
    checks = []
    for limit in limits:
        value = metrics[limit.metric]
        if math.isfinite(value):
            is_ok, text = _compare(limit, value, (bases or {}).get(limit.metric, ""))
        else:
            why = why_undefined(limit.metric)
            is_ok, text = False, f"{limit.metric} is not defined: {why}; {limit} is required"
        checks.append(
            Check(name=limit.metric, value=value, limit=limit.value, is_ok=is_ok, text=text)
        )
    return checks


def judge(checks: Sequence[Check]) -> Judgement:
    """Return the verdict: passed if all checks are."""
    return judgement_of([check.to_json() for check in checks])


def judgement_of(checks: Sequence[Json]) -> Judgement:
    """Return the verdict of checks as evaluation.json has them."""
    if not checks:
        return Judgement(is_passed=True, reasons=("no threshold is set",))
    return Judgement(
        is_passed=all(check["ok"] for check in checks),
        reasons=tuple(check["text"] for check in checks),
    )


def format_metric(value: float) -> str:
    """Format a metric with four decimals, one if it is large, or three digits if it is tiny."""
    if value != 0 and abs(value) < _TINY:
        return number_text(value, digits=3)
    return f"{value:.4f}" if abs(value) < _LARGE else f"{value:,.1f}"


def _limit_text(value: float) -> str:
    return number_text(value, digits=12)


def _plain(value: float) -> str:
    """Return a limit as settings have it."""
    return f"{value:.12g}"


def _compare(limit: Limit, value: float, basis: str) -> tuple[bool, str]:
    shown = format_metric(value)
    if value != limit.value and shown == format_metric(limit.value):
        # Rounding would say "0.985 is below 0.985".
        shown = repr(value)
    shown += basis
    if limit.margin(value) >= 0:
        return True, f"{limit.metric} {shown} is {limit}"
    missed = "above" if limit.direction == AT_MOST else "below"
    return False, f"{limit.metric} {shown} is {missed} {_limit_text(limit.value)}"


def _directions(metric: str, threshold: Any) -> Mapping[str, Any]:
    if isinstance(threshold, Mapping) and threshold:
        return threshold
    known = dict.fromkeys(LOWER_IS_BETTER, AT_MOST) | dict.fromkeys(HIGHER_IS_BETTER, AT_LEAST)
    return {known.get(metric, ""): threshold}


def _check(metric: str, direction: str, value: Any) -> None:
    if direction not in ("", *DIRECTIONS):
        raise ConfigError(
            f"thresholds.{metric} has no {direction!r};{did_you_mean(direction, DIRECTIONS)} "
            f"allowed are {', '.join(DIRECTIONS)}"
        )
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -MOST <= value <= MOST:
        raise ConfigError(
            f"thresholds.{metric} is {value!r}; it must be a number, or numbers by "
            f"direction, as {{{AT_MOST}: 3.2}}"
        )
    least, most = RANGES.get(metric, (-MOST, MOST))
    if not least <= value <= most:
        raise ConfigError(
            f"thresholds.{metric} is {_plain(value)}; {metric} is always from {_plain(least)} to"
            f" {_plain(most)}: give a number between them"
        )


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    names = [name for name, _ in pairs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigError(f"thresholds has {repeated[0]!r} twice; keep one")
    return dict(pairs)
