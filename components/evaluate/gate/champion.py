"""Predictions of the champion, the default version of the model, for the examples of this run."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from components.errors import StepError
from components.evaluate.held_out import with_columns
from components.model_version.champion import Champion, check_replaced
from components.model_version.companions import INPUT_FILE, read_companion_object
from components.prepare_examples.output.manifest import split_of
from components.prepare_examples.output.publish import MANIFEST
from components.shared.text.json_object import read_object
from trainer import Json, paths
from trainer.config.trust import Trust
from trainer.errors import InputError, TrainerError, first_line
from trainer.workloads.base import Workload
from trainer.workloads.declarations.labels import Label

if TYPE_CHECKING:
    from trainer.serving.export import Predictor

Predict = Callable[[Mapping[str, Any]], NDArray[Any]]


class NotComparableError(Exception):
    """The champion cannot predict these examples; the message says why."""


def load_champion(known: Champion, workload: Workload) -> tuple[Predict, Label]:
    """Return the function from raw features to the champion's predictions, and its label.

    Its probabilities have the columns of the workload's classes; a class that the champion does not
    know has probability 0.

    Raises:
        NotComparableError: it cannot be loaded, its files have changed, or it has another label or
            other inputs.
    """
    champion = _load(known, beside=workload.reference)
    _check_label(champion.workload, workload)
    _check_inputs(champion.workload.input_specs(), workload.input_specs())
    _try_out(champion)

    def predict(features: Mapping[str, Any]) -> NDArray[Any]:
        predictions = champion.predict_values(features)
        return with_columns(predictions, champion.workload.labels, workload.labels)

    # Its threshold, and the costs of mistakes of today.
    return predict, workload.label.with_threshold(champion.workload.label.threshold)


def check_split(model_uri: str, examples_dir: str) -> None:
    """Check that the champion was trained under the rule that has split these examples.

    Under another rule it may have been trained on rows of this test split.

    Raises:
        NotComparableError: the rules differ, or the champion's is not known.
    """
    now = split_of(read_object(f"{examples_dir}/{MANIFEST}"))
    try:
        record = read_companion_object(model_uri, INPUT_FILE) or {}
    except InputError as error:
        raise NotComparableError(str(error)) from error
    before = record.get("split") or split_of({})
    if _is_earlier(before, now):
        return
    if before != now:
        raise NotComparableError(
            f"its rows were split {_difference(before, now)}, so it may have been trained on rows"
            " of this test split"
        )


def _is_earlier(before: Json, now: Json) -> bool:
    """Return whether all rows of a champion's training are from before a test split by time."""
    if not ("starts" in before and "starts" in now and before["by"] == now["by"]):
        return False
    first, last = before["starts"].get("test"), now["starts"].get("test")
    return bool(first and last and first <= last)


def _difference(before: Json, now: Json) -> str:
    if not before["rule"]:
        return "by a rule that is not recorded"
    if before["rule"] != now["rule"]:
        return f"{before['rule']}, and are now split {now['rule']}"
    if before.get("starts") != now.get("starts"):
        shown = [
            ", ".join(f"{n} from {day}" for n, day in facts["starts"].items())
            for facts in (before, now)
        ]
        return f"with {shown[0]}, and are now split with {shown[1]}"
    changed = sorted(set(before["columns"]) ^ set(now["columns"]))
    return f"when the files had other columns ({', '.join(changed)} came or went)"


def _load(known: Champion, *, beside: str) -> "Predictor":
    """Return the champion's predictor; its graph was checked when it came into the registry."""
    from trainer.serving.export import is_foreign, load_predictor

    model_uri = paths.uri(known.model_uri)
    if is_foreign(model_uri):
        raise NotComparableError("it was exported by another program")
    try:
        check_replaced(known)
        return load_predictor(model_uri, trust=Trust(graph=True), beside=beside)
    except (StepError, TrainerError) as error:
        raise NotComparableError(str(error)) from error


def _check_label(champion: Workload, ours: Workload) -> None:
    if champion.name != ours.name:
        raise NotComparableError(f"it is a model of the workload {champion.name}, not {ours.name}")
    if (champion.label.kind, champion.label.column) != (ours.label.kind, ours.label.column):
        label = champion.label
        raise NotComparableError(f"it predicts the label {label.column} ({label.kind})")


def _check_inputs(champion: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    if absent := sorted(set(champion) - set(ours)):
        raise NotComparableError(f"the examples do not have its inputs {', '.join(absent)}")
    for name, spec in champion.items():
        if spec.dtype != ours[name].dtype or not spec.is_compatible_with(ours[name]):
            raise NotComparableError(
                f"its input {name} is {_shown(spec)}, the examples have {_shown(ours[name])}"
            )


def _try_out(champion: "Predictor") -> None:
    import tensorflow as tf

    try:
        champion.warm_up()
    except (tf.errors.OpError, ValueError, TypeError) as error:
        raise NotComparableError(f"it cannot predict: {first_line(error)}") from error


def _shown(spec: Any) -> str:
    return f"{spec.dtype.name}{spec.shape.as_list()}"
