"""Compares online with offline predictions."""

import math
from collections.abc import Sequence

from trainer.json_types import Json

PROBABILITY_TOLERANCE = 1e-5


class ParityError(Exception):
    """The deployed model does not predict what the model predicted offline."""


def check_parity(online: Sequence[Json], offline: Sequence[Json], labels: Sequence[str]) -> float:
    """Answers the largest difference between two probabilities of the same class.

    Args:
        online: the endpoint's predictions.
        offline: the golden ones, in the same order.
        labels: the true labels, for the message.

    Raises:
        ParityError: another number of predictions, another class, or a probability that differs by
            more than 1e-5; names the worst.
    """
    if len(online) != len(offline):
        raise ParityError(
            f"{len(offline)} instances were sent, {len(online)} predictions came back"
        )
    worst, message = 0.0, ""
    for index, (ours, golden) in enumerate(zip(online, offline, strict=True)):
        where = f"instance {index} (true label {labels[index]})"
        at, difference = _worst_class(_probabilities(ours, where), golden["probabilities"], where)
        if ours.get("class") != golden["class"]:
            raise ParityError(
                f"{where}: class {ours.get('class')} online, {golden['class']} offline; the "
                f"largest difference of a probability is {difference:.3g}"
            )
        if difference > worst:
            worst = difference
            message = (
                f"{where}: the probability of class {at} is {ours['probabilities'][at]:.7g} online "
                f"and {golden['probabilities'][at]:.7g} offline: the difference of {worst:.3g} is "
                f"above {PROBABILITY_TOLERANCE:g}"
            )
    if worst > PROBABILITY_TOLERANCE:
        raise ParityError(message)
    return worst


def _probabilities(prediction: Json, where: str) -> list[float]:
    values = prediction.get("probabilities") if isinstance(prediction, dict) else None
    if not isinstance(values, list) or not all(isinstance(v, int | float) for v in values):
        raise ParityError(f"{where}: the endpoint's prediction has no list of probabilities")
    return [float(value) for value in values]


def _worst_class(online: list[float], offline: list[float], where: str) -> tuple[int, float]:
    if len(online) != len(offline):
        raise ParityError(f"{where}: {len(online)} probabilities online, {len(offline)} offline")
    differences = [abs(a - b) for a, b in zip(online, offline, strict=True)]
    finite = [math.inf if math.isnan(difference) else difference for difference in differences]
    worst = max(finite, default=0.0)
    return (finite.index(worst) if finite else 0), worst
