"""The models that a trained model is compared with, and the columns of its slices."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.gate.baseline import fit_linear, fit_trees, has_columns
from components.evaluate.gate.champion import NotComparableError, check_split, load_champion
from components.evaluate.gate.comparison import CHAMPION
from components.evaluate.gate.options import CONSTANT, LINEAR, NO_BASELINE, TREES, GateOptions
from components.evaluate.gate.slice_rules import Rule, cut, with_declared_names
from components.model_version.champion import Champion
from trainer.errors import ConfigError, InputError
from trainer.workloads.base import Workload
from trainer.workloads.declarations.labels import Label
from trainer.workloads.declarations.storage import INT
from trainer.workloads.models.line import MAX_LINE_ROWS

if TYPE_CHECKING:  # imports TensorFlow
    from trainer.examples.manifest import SplitFiles
    from trainer.examples.tables import Decoder
    from trainer.serving.export import Predictor

logger = logging.getLogger(__name__)

# By `gate.baseline`: the model and the most rows that it is fitted to, which takes seconds.
SIMPLE_MODELS = {LINEAR: (fit_linear, MAX_LINE_ROWS), TREES: (fit_trees, 100_000)}

MOST_LABELS = 1_000_000  # of the train split, for the best constant
MAX_CLASSES = 1000  # of which simple models are fitted in seconds, and in some megabytes

Predict = Callable[[Mapping[str, Any]], NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Rivals:
    """Functions from raw features to predictions, by name; or why the champion has none.

    `labels` has the champion's label, whose threshold may be another one.
    """

    models: Mapping[str, Predict] = field(default_factory=dict)
    labels: Mapping[str, Label] = field(default_factory=dict)
    why_not: str = ""


def find_rivals(
    predictor: "Predictor", options: GateOptions, *, champion: Champion, examples_dir: str
) -> Rivals:
    """Return the best constant of the train split, and the champion if it can be compared.

    Without a champion there is also a simple model of the train split.
    """
    workload = predictor.workload
    why_not, constant = "", best_constant(workload, options, examples_dir)
    if champion.model_uri:
        try:
            predict, label = load_champion(champion, workload)
            check_split(champion.model_uri, examples_dir)
            return Rivals(models={CHAMPION: predict, **constant}, labels={CHAMPION: label})
        except NotComparableError as error:
            why_not = str(error)
    simple = simple_models(predictor, options, examples_dir)
    return Rivals(models=simple | constant, why_not=why_not)


def best_constant(
    workload: Workload, options: GateOptions, examples_dir: str
) -> dict[str, Predict]:
    """Return the best constant for the labels of the train split; {} if none is compared."""
    if options.baseline == NO_BASELINE:
        return {}
    from trainer.runtime.tracing import plain

    with _first_batches(workload, examples_dir, MOST_LABELS) as (decoder, batches):
        # A graph, of which TensorFlow runs only what the labels need: no picture is decoded.
        pieces = batches.map(plain(lambda records: decoder.decode(records)[1]))
        labels = np.concatenate([*pieces.as_numpy_iterator()])
    labels = labels[_find_labelled(labels, workload)]
    best = workload.label.fit_constant(labels, len(workload.labels))

    def predict(features: Mapping[str, Any]) -> NDArray[Any]:
        return np.broadcast_to(best, (len(next(iter(features.values()))), *best.shape))

    return {CONSTANT: predict}


def simple_models(
    predictor: "Predictor", options: GateOptions, examples_dir: str
) -> dict[str, Predict]:
    """Return the simple model of the options, of the train split; {} if there is none.

    A linear one is the line that the model has beside its net, if it has one.
    """
    workload = predictor.workload
    if options.baseline == LINEAR and predictor.has_line:
        return {LINEAR: predictor.predict_line}
    if options.baseline not in SIMPLE_MODELS or not has_columns(workload):
        return {}
    try:
        return {options.baseline: _fit(workload, examples_dir, options.baseline)}
    except InputError as error:
        logger.warning("no simple model (%s) is fitted: %s", options.baseline, error)
        return {}


def find_rules(workload: Workload, options: GateOptions) -> list[Rule]:
    """Return the rules of the slices.

    Raises:
        ConfigError: a rule reads a feature that the model does not get, or a list, or compares a
            number with a text.
    """
    specs, aliases = workload.input_specs(), getattr(workload, "aliases", {})
    rules = with_declared_names(options.rules, list(specs), aliases, owner=workload.name)
    for rule in rules:
        for name in rule.features:
            if len(specs[name].shape) != 1:
                raise ConfigError(
                    f"gate.slices has {rule.text!r}, but {name!r} has several values in each"
                    " example; give a feature with a single value"
                )
        # On empty columns: an impossible comparison fails before anything is predicted.
        cut(
            rule,
            {name: np.empty(0, specs[name].dtype.as_numpy_dtype) for name in rule.features},
            {},
        )
    return rules


def missing_numbers(workload: Workload, rules: Sequence[Rule]) -> dict[str, Any]:
    """Return the number that stands for a missing value of each whole-number feature in rules."""
    wanted = {name for rule in rules for name in rule.features}
    return {
        feature.name: feature.missing_value
        for feature in getattr(workload, "used", ())
        if feature.name in wanted and feature.storage == INT
    }


def _fit(workload: Workload, examples_dir: str, name: str) -> Predict:
    """Return a simple model of rows of the train split."""
    from trainer.examples.tables import sample_rows

    if len(workload.labels) > MAX_CLASSES:
        raise InputError(f"{len(workload.labels):,} classes are more than {MAX_CLASSES:,}")
    fit, most_rows = SIMPLE_MODELS[name]
    train, decoder = _train_split(workload, examples_dir)
    features, labels = sample_rows(train, decoder, most_rows)
    known = _find_labelled(labels, workload)
    return fit(workload, {name: column[known] for name, column in features.items()}, labels[known])


def _train_split(workload: Workload, examples_dir: str) -> tuple["SplitFiles", "Decoder"]:
    """Return the train split, and a decoder of it to raw features."""
    from trainer.examples.manifest import read_manifest
    from trainer.examples.tables import Decoder

    manifest = read_manifest(examples_dir, workload=workload.name)
    train = manifest.splits.get("train")
    if train is None or not train.num_examples:
        raise InputError("the examples have no train split")
    return train, Decoder(workload=workload, compression=manifest.compression, is_raw=True)


@contextmanager
def _first_batches(
    workload: Workload, examples_dir: str, most_rows: int
) -> Iterator[tuple["Decoder", Any]]:
    """Yield a decoder, and batches of the first records of each file of the train split."""
    from trainer.examples.tables import RecordRange, as_tensors

    train, decoder = _train_split(workload, examples_dir)
    share = -(-most_rows // len(train.shards))
    slices = [
        RecordRange(shard=shard, skip=0, take=min(share, shard.num_examples))
        for shard in train.shards
    ]
    with decoder.explaining_errors(train.shards):
        yield decoder, decoder.records(as_tensors(slices))


def _find_labelled(labels: NDArray[Any], workload: Workload) -> NDArray[Any]:
    """Return which labels of the train split are not missing; InputError if all are."""
    known = workload.label.find_labelled(labels)
    if not known.any():
        raise InputError("no example of the train split has a label")
    return known
