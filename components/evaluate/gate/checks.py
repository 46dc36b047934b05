"""Checks of a comparison, which make the verdict together with the thresholds."""

from components.evaluate.gate.comparison import Comparison, Slice
from components.evaluate.gate.gain import Gain
from components.evaluate.gate.options import CONSTANT, LINEAR, TREES, GateOptions
from components.evaluate.held_out import HeldOut
from components.evaluate.thresholds import Check, format_metric
from components.model_version.companions import model_files
from components.shared.text.value_text import first_of
from trainer.metrics.class_metrics import find_not_finite
from trainer.metrics.directions import LOWER_IS_BETTER

BYTES_PER_MB = 1_000_000
NUM_SHOWN = 3
SIMPLE_MODELS = {
    CONSTANT: "the best constant prediction",
    LINEAR: "a linear model",
    TREES: "gradient-boosted trees",
}
REQUIRED = {
    CONSTANT: "every version must be better; --set gate.baseline=none allows it",
    LINEAR: "a first version must not be worse; --set gate.baseline=constant allows it",
}
REPLACING = (
    "a version that replaces another must surely be better; --set gate.baseline=none allows it"
)


def check_comparison(
    comparison: Comparison, options: GateOptions, *, champion: str, why_not: str = ""
) -> list[Check]:
    """Return the checks of gains over a champion or a simple model, and of slices.

    `champion` is the version in words, such as `version 3`, "" without one; `why_not` is why it
    could not predict the examples.
    """
    checks = []
    if why_not:
        instead = "a simple model decides" if comparison.baseline else "the thresholds decide"
        text = f"no comparison with {champion} is possible: {why_not}; {instead}"
        checks.append(Check(name="champion", is_ok=True, is_sure=False, text=text))
    if comparison.champion:
        checks.append(_check_champion(comparison.champion, options, champion))
    if comparison.baseline:
        checks.append(
            _check_baseline(
                comparison.baseline,
                comparison.baseline_name,
                replaces=comparison.champion is not None,
            )
        )
    return [*checks, *_check_slices(comparison, options, champion)]


def check_size(model_dir: str, options: GateOptions) -> list[Check]:
    """Return the check of the size of a model's files, if it has a limit."""
    if options.max_model_mb is None:
        return []
    size = sum(path.stat().st_size for path in model_files(model_dir).values()) / BYTES_PER_MB
    limit = options.max_model_mb
    is_ok = size <= limit
    text = f"the model has {size:.3g} MB, {'at most' if is_ok else 'above'} {limit:g}"
    return [Check(name="model_mb", value=size, limit=limit, is_ok=is_ok, text=text)]


def check_predictions(held_out: HeldOut) -> list[Check]:
    """Return a failed check if predictions of the test split are not finite numbers."""
    bad = find_not_finite(held_out.predictions)
    if not len(bad):
        return []
    text = (
        f"{len(bad):,} of {len(held_out.predictions):,} predictions of the test split are not"
        f" finite numbers, such as example {bad[0]}'s (label {held_out.true_label(bad[0])!r})"
    )
    return [Check(name="predictions", value=float(len(bad)), limit=0.0, is_ok=False, text=text)]


def is_slice_ok(part: Slice, options: GateOptions) -> bool | None:
    """Return whether a slice is not surely worse than the champion's, by more than the margin.

    The measured loss is held against the margin, not the friendly end of its interval. None if the
    metric is not defined on the slice.
    """
    if part.undefined:
        return None
    gain = part.gain
    if gain is None:
        return True
    is_enough = gain.high >= 0 or gain.difference >= _slice_limit(gain, options)
    return gain.is_defined and is_enough


def _check_champion(gain: Gain, options: GateOptions, champion: str) -> Check:
    if not gain.is_defined:
        return _check_undefined("champion", gain, f"{champion}'s")
    text, limit = _compared(gain, f"{champion}'s"), options.min_gain
    is_ok = gain.high >= 0 if limit is None else gain.low >= limit
    if limit is None or not gain.is_sure:
        text += _doubt(gain)
    elif is_ok and gain.high < 0:
        text += f"; gate.min_gain={limit:g} allows it"
    if limit is not None and not is_ok:
        text += f"; its lower end must be at least {limit:g}"
    return Check(
        name="champion",
        value=gain.difference,
        limit=limit,
        is_ok=is_ok,
        is_sure=gain.low > 0,
        text=text,
    )


def _check_baseline(gain: Gain, name: str, *, replaces: bool) -> Check:
    """Return the check of a gain over a simple model.

    A version that replaces another must surely be better: by luck, half of all models of a label
    that has become noise are better than the best constant.
    """
    if not gain.is_defined:
        return _check_undefined("baseline", gain, f"that of {SIMPLE_MODELS[name]}")
    best = 0.0 if gain.metric in LOWER_IS_BETTER else 1.0
    is_perfect = gain.candidate == gain.other == best
    is_sure = is_perfect or gain.low > 0
    # The interval of folds tells a loss from chance; a small test split's does not.
    least = gain.high if gain.basis else gain.difference
    is_enough = gain.difference > 0 if name == CONSTANT else least >= 0
    is_ok = is_sure or (is_enough and not replaces)
    text = _compared(gain, f"that of {SIMPLE_MODELS[name]},")
    text += ": no model can beat it" if is_perfect else _doubt(gain)
    if not is_ok:
        text += f"; {REPLACING if is_enough else REQUIRED.get(name, REQUIRED[LINEAR])}"
    return Check(
        name="baseline", value=gain.difference, limit=0.0, is_ok=is_ok, is_sure=is_sure, text=text
    )


def _doubt(gain: Gain) -> str:
    """Return that an interval with zero in it proves nothing, in words; else ""."""
    examples = "rows" if gain.basis else "test examples"
    return "" if gain.is_sure else f": {gain.num_examples:,} {examples} cannot tell"


def _check_undefined(name: str, gain: Gain, other: str) -> Check:
    why = gain.undefined or "a value is not a finite number"
    text = f"{gain.metric} is not defined: {why}, so it cannot be compared with {other}"
    return Check(name=name, is_ok=False, text=text)


def _check_slices(comparison: Comparison, options: GateOptions, champion: str) -> list[Check]:
    if comparison.champion is None:
        return []
    judged = [part for part in comparison.slices if not part.undefined]
    worse = [part for part in judged if not is_slice_ok(part, options)]
    checks = [_check_slice(part, options, champion) for part in worse]
    if judged and not worse:
        text = (
            f"none of {len(judged)} slices is surely worse than {champion}'s, by more than"
            f" {options.slice_margin:.3g} of it"
        )
        lost = [part for part in judged if part.gain and part.gain.high < 0]
        if lost:
            text += f"; surely worse by less: {first_of([part.name for part in lost], NUM_SHOWN)}"
        checks.append(Check(name="slices", is_ok=True, is_sure=not lost, text=text))
    few = f"it has fewer than {options.slice_min_examples} examples"
    not_judged = {part.name: part.undefined for part in comparison.slices if part.undefined}
    not_judged |= dict.fromkeys(comparison.small, few)
    if not_judged:
        shown = first_of([f"{name} ({why})" for name, why in not_judged.items()], NUM_SHOWN)
        text = f"not judged by {comparison.metric}: slice {shown}"
        checks.append(Check(name="slices", is_ok=True, is_sure=False, text=text))
    return checks


def _check_slice(part: Slice, options: GateOptions, champion: str) -> Check:
    assert part.gain is not None
    return Check(
        name=f"slice {part.name}",
        value=part.gain.difference,
        limit=_slice_limit(part.gain, options),
        is_ok=False,
        text=f"slice {part.name} ({part.num_examples:,} examples): "
        + _compared(part.gain, f"{champion}'s"),
    )


def _slice_limit(gain: Gain, options: GateOptions) -> float:
    return -options.slice_margin * abs(gain.other)


def _compared(gain: Gain, other: str) -> str:
    """Return `auc 0.9461 is 0.0012 better than version 3's 0.9449, surely better by …`."""
    size = format_metric(abs(gain.difference))
    words = f"{size} {'better than' if gain.difference > 0 else 'worse than'}"
    relation = words if gain.difference else "equal to"
    return (
        f"{gain.metric} {format_metric(gain.candidate)}{gain.basis} is {relation} {other}"
        f" {format_metric(gain.other)}, {gain.words}"
    )
