"""Checks of a comparison, which with those of the thresholds make the verdict."""

import math
from collections.abc import Sequence

from components.evaluate.gate.comparison import Comparison, Slice
from components.evaluate.gate.gain import Gain
from components.evaluate.gate.options import CONSTANT, LINEAR, GateOptions
from components.evaluate.thresholds import Check, format_metric
from components.model_version.companions import model_files
from trainer.serving.directions import LOWER_IS_BETTER

# Share of the champion's metric that a model may be worse by without `min_gain`: trainings that
# differ only in their seed differ by as much.
TOLERANCE = 0.002
BYTES_PER_MB = 1_000_000
SIMPLE_MODELS = {
    CONSTANT: "the best constant prediction",
    LINEAR: "a linear model",
}


def check_comparison(
    comparison: Comparison, options: GateOptions, *, champion: str, why_not: str = ""
) -> list[Check]:
    """Return the checks of gains over a champion or a simple model, and of slices.

    Args:
        comparison: The gains.
        options: The gate's settings.
        champion: The champion in words, such as `version 3`; "" without one.
        why_not: Why the champion could not predict the examples.
    """
    checks = []
    if why_not:
        text = f"no comparison with {champion} is possible: {why_not}; the thresholds decide"
        checks.append(Check(name="champion", value=None, limit=None, is_ok=True, text=text))
    if comparison.champion:
        checks.append(_check_champion(comparison.champion, options, champion))
    if comparison.baseline:
        checks.append(_check_baseline(comparison.baseline, comparison.baseline_name))
    return [*checks, *_check_slices(comparison.slices, options, champion)]


def check_size(model_dir: str, options: GateOptions) -> list[Check]:
    """Return the check of the size of a model's files, if it has a limit."""
    if options.max_model_mb is None:
        return []
    size = sum(path.stat().st_size for path in model_files(model_dir).values()) / BYTES_PER_MB
    limit = options.max_model_mb
    is_ok = size <= limit
    text = f"the model has {size:.3g} MB, {'at most' if is_ok else 'above'} {limit:g}"
    return [Check(name="model_mb", value=size, limit=limit, is_ok=is_ok, text=text)]


def is_slice_ok(found: Slice, options: GateOptions) -> bool:
    """Return whether a slice is not certainly worse than the champion's by more than the margin."""
    return found.gain is None or not found.gain.high < _slice_limit(found.gain, options)


def _check_champion(gain: Gain, options: GateOptions, champion: str) -> Check:
    text = _compared(gain, f"{champion}'s")
    if math.isnan(gain.high):
        is_ok, limit, text = True, None, f"{gain.metric} is not defined, so nothing is compared"
    elif options.min_gain is None:
        limit = -TOLERANCE * abs(gain.other)
        is_ok = gain.high >= limit
        if gain.difference < 0 and is_ok:
            text += ", which may be chance" if gain.high >= 0 else f", within {TOLERANCE:.1%}"
    else:
        limit = options.min_gain
        is_ok = gain.low >= limit
        text += "" if is_ok else f", which must begin at {limit:g} or above"
    return Check(name="champion", value=gain.difference, limit=limit, is_ok=is_ok, text=text)


def _check_baseline(gain: Gain, name: str) -> Check:
    best = 0.0 if gain.metric in LOWER_IS_BETTER else 1.0
    is_perfect = gain.candidate == gain.other == best
    is_ok = is_perfect or not gain.high <= 0
    text = _compared(gain, f"that of {SIMPLE_MODELS[name]},")
    if is_perfect:
        text += ", which no model can beat"
    elif is_ok and gain.difference <= 0:
        text += ", which may be chance"
    return Check(name="baseline", value=gain.difference, limit=0.0, is_ok=is_ok, text=text)


def _check_slices(slices: Sequence[Slice], options: GateOptions, champion: str) -> list[Check]:
    judged = [one for one in slices if one.gain is not None]
    worse = [one for one in judged if not is_slice_ok(one, options)]
    if judged and not worse:
        text = (
            f"none of {len(judged)} slices is worse than {champion}'s by more than"
            f" {options.slice_margin:.3g} of it"
        )
        return [Check(name="slices", value=None, limit=None, is_ok=True, text=text)]
    return [_check_slice(one, options, champion) for one in worse]


def _check_slice(found: Slice, options: GateOptions, champion: str) -> Check:
    assert found.gain is not None
    return Check(
        name=f"slice {found.name}",
        value=found.gain.difference,
        limit=_slice_limit(found.gain, options),
        is_ok=False,
        text=f"slice {found.name} ({found.num_examples:,} examples): "
        + _compared(found.gain, f"{champion}'s"),
    )


def _slice_limit(gain: Gain, options: GateOptions) -> float:
    return -options.slice_margin * abs(gain.other)


def _compared(gain: Gain, other: str) -> str:
    """Return `auc 0.9461 is 0.0012 better than version 3's 0.9449 (95 % interval 0.0002 to …)`."""
    size = format_metric(abs(gain.difference))
    how = f"{size} {'better than' if gain.difference > 0 else 'worse than'}"
    relation = how if gain.difference else "equal to"
    confidence = f"{gain.confidence * 100:.4g}"
    return (
        f"{gain.metric} {format_metric(gain.candidate)} is {relation} {other}"
        f" {format_metric(gain.other)} ({confidence} % interval"
        f" {_signed(gain.low)} to {_signed(gain.high)})"
    )


def _signed(value: float) -> str:
    return format_metric(value) if value <= 0 else f"+{format_metric(value)}"
