"""Comparison of online with offline predictions."""

import math
from collections.abc import Sequence

from components.errors import StepError
from trainer.json_types import Json

PROBABILITY_TOLERANCE = 1e-5


def check_parity(online: Sequence[Json], offline: Sequence[Json], labels: Sequence[str]) -> float:
    """Return the largest difference between an online and an offline probability.

    Args:
        online: Predictions of the endpoint.
        offline: The golden predictions, in the same order.
        labels: True labels, for the message.

    Raises:
        StepError: The number of predictions or a class differs, or a probability differs by more
            than 1e-5; names the largest difference.
    """
    if len(online) != len(offline):
        raise StepError(
            f"the endpoint returned {len(online)} predictions for {len(offline)} instances"
        )
    worst, message = 0.0, ""
    for index, (ours, golden) in enumerate(zip(online, offline, strict=True)):
        place = f"instance {index} (true label {labels[index]})"
        at, difference = _worst_class(_probabilities(ours, place), golden["probabilities"], place)
        if ours.get("class") != golden["class"]:
            raise StepError(
                f"{place}: class {ours.get('class')} online, {golden['class']} offline; the "
                f"largest difference of a probability is {difference:.3g}"
            )
        if difference > worst:
            worst = difference
            message = (
                f"{place}: the probability of class {at} is {ours['probabilities'][at]:.7g} online "
                f"and {golden['probabilities'][at]:.7g} offline; the difference {worst:.3g} "
                f"exceeds {PROBABILITY_TOLERANCE:g}"
            )
    if worst > PROBABILITY_TOLERANCE:
        raise StepError(message)
    return worst


def _probabilities(prediction: Json, place: str) -> list[float]:
    values = prediction.get("probabilities") if isinstance(prediction, dict) else None
    if not isinstance(values, list) or not all(isinstance(v, int | float) for v in values):
        raise StepError(f"{place}: the endpoint's prediction has no list of probabilities")
    return [float(value) for value in values]


def _worst_class(online: list[float], offline: list[float], place: str) -> tuple[int, float]:
    """Return the class with the largest difference, and that difference; nan counts as infinite."""
    if len(online) != len(offline):
        raise StepError(f"{place}: {len(online)} probabilities online, {len(offline)} offline")
    differences = [abs(a - b) for a, b in zip(online, offline, strict=True)]
    finite = [math.inf if math.isnan(difference) else difference for difference in differences]
    worst = max(finite, default=0.0)
    return (finite.index(worst) if finite else 0), worst
