"""Comparison of recipes by the predictions of rows that their models were not trained on."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.gate.comparison import CHAMPION, Comparison, compare
from components.evaluate.gate.options import GateOptions
from components.evaluate.held_out import HeldOut, with_columns
from components.model_version.companions import FOLDS_FILE, read_companion_object
from trainer import Json
from trainer.errors import InputError
from trainer.metrics.class_metrics import CHOICE

logger = logging.getLogger(__name__)


def to_companion(held_out: HeldOut) -> Json:
    """Return the predictions of each row by its hash, for the comparison with a later version."""
    predictions = defaultdict[str, list[Any]](list)
    for key, predicted in zip(held_out.hashes, held_out.predictions.tolist(), strict=True):
        predictions[key].append(predicted)
    return {
        "names": list(held_out.names),
        "are_choices": held_out.predictions.dtype == CHOICE,
        "predictions": predictions,
    }


def compare_folds(
    held_out: HeldOut, on_test: Comparison, options: GateOptions, *, champion_uri: str, **cut: Any
) -> Comparison:
    """Return the comparison of the rows of all folds with simple models and the champion.

    Of a champion that was judged by folds, the rows that both have predicted count, if they are
    more than the test split has. Else its comparison `on_test` is kept: it was not trained on
    that split. `cut` has the further arguments of `compare`.
    """
    comparison = compare(held_out, options, **cut)
    if on_test.champion is None:
        return comparison
    shared, num_test = _shared(held_out, champion_uri), on_test.champion.num_examples
    if shared and len(shared.labels) > num_test:
        other = compare(shared, options, **cut)
    else:
        why = "since the default version was not judged by folds of these"
        basis = f" on the test split ({num_test:,} rows, {why})"
        other = replace(on_test, champion=replace(on_test.champion, basis=basis))
    return replace(comparison, champion=other.champion, slices=other.slices, small=other.small)


def _shared(held_out: HeldOut, champion_uri: str) -> HeldOut | None:
    """Return the rows that a champion's folds have predicted, too; None without any.

    Equal rows share a hash, so the first of one is paired with the first of the other.
    """
    try:
        content = read_companion_object(champion_uri, FOLDS_FILE, "names", "predictions") or {}
    except InputError as error:
        logger.warning("%s", error)
        content = {}
    known = {key: list(predicted) for key, predicted in content.get("predictions", {}).items()}
    pairs = [(row, known[key].pop(0)) for row, key in enumerate(held_out.hashes) if known.get(key)]
    if not pairs:
        return None
    rows = np.array([row for row, _ in pairs])
    predicted = [prediction for _, prediction in pairs]
    return replace(
        held_out,
        labels=held_out.labels[rows],
        predictions=held_out.predictions[rows],
        rivals={CHAMPION: _read_predictions(predicted, content, held_out, rows)},
        columns={name: column[rows] for name, column in held_out.columns.items()},
    )


def _read_predictions(
    predicted: Sequence[Any], content: Json, held_out: HeldOut, rows: NDArray[Any]
) -> NDArray[Any]:
    """Return a champion's predictions of rows with today's names, of a record of `to_companion`."""
    names, wanted = content["names"], held_out.names
    if not content.get("are_choices"):
        known = with_columns(np.array(predicted, np.float32), names, wanted)
        return held_out.label.summarized(known, held_out.labels[rows])
    choices = np.array(list(map(tuple, predicted)), CHOICE)
    numbers = {name: number for number, name in enumerate(wanted)}
    choices["predicted"] = [numbers.get(names[number], -1) for number in choices["predicted"]]
    return choices
