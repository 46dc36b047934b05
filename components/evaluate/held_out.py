"""The test split with the model's predictions for it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.errors import StepError
from components.shared.pages.evaluation.sections import fold_words
from trainer import Json
from trainer.metrics.evaluation import Evaluation
from trainer.metrics.statistics import Statistic
from trainer.workloads.base import Workload
from trainer.workloads.declarations.labels import Label

if TYPE_CHECKING:
    from trainer.serving.export import Predictor

NUM_GOLDEN = 10
NUM_SHOWN = 24

Row = dict[str, Any]
Predict = Callable[[Mapping[str, Any]], NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Labels and predictions of a split; row i of each array belongs to example i.

    Examples without a label are left out.

    Attributes:
        labels: True labels, as Workload.parse returns them.
        predictions: Values [n] of a Regression, else probabilities [n, names], of more than two
            classes a CHOICE of each.
        golden: Indices of the examples whose predictions the deployed model must repeat.
        mistakes: Indices of the examples to show in the report, the worst first.
        rows: Raw features of the golden examples and mistakes, by index.
        num_mistakes: Number of wrong predictions; of a Regression, all examples.
        compiled: Loss and metrics that the model was compiled with, by name.
        rivals: Predictions of other models for the same examples, by name.
        rival_labels: Labels of those whose threshold differs, by name.
        columns: Raw features [n] that were asked for, by name.
        num_folds: Number of folds, if the examples are all rows of a dataset and each fold was
            predicted by models of the others; 0 for a split.
    """

    label: Label
    names: Sequence[str]
    labels: NDArray[Any]
    predictions: NDArray[Any]
    golden: list[int]
    mistakes: list[int]
    rows: dict[int, Row]
    format_instance: Callable[[Row], Any]
    num_mistakes: int = 0
    num_unlabelled: int = 0
    compiled: Mapping[str, float] = field(default_factory=dict)
    rivals: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    rival_labels: Mapping[str, Label] = field(default_factory=dict)
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    num_folds: int = 0
    hashes: Sequence[str] = ()

    @property
    def folds(self) -> Json | None:
        """The number of folds and of rows; None for a split."""
        counts = {"count": self.num_folds, "rows": len(self.labels)}
        return counts if self.num_folds else None

    @property
    def basis(self) -> str:
        """The rows of folds in words, as ` by 5 folds (150 rows)`; "" for a split."""
        return f" {fold_words(self.folds)}" if self.folds else ""

    def score(self, model: str = "") -> Evaluation:
        """Return the evaluation of the model, or of a rival by its name."""
        if model:
            label = self.rival_labels.get(model, self.label)
            return label.score(self.rivals[model], self.labels, self.names)
        return self.label.score(self.predictions, self.labels, self.names, self.compiled)

    def statistic(self, metric: str, model: str = "", rows: Any = slice(None)) -> Statistic:
        """Return a metric on some examples, of the model or of a rival, as a function of a draw."""
        predictions = self.rivals[model] if model else self.predictions
        label = self.rival_labels.get(model, self.label)
        return label.statistic(metric, predictions[rows], self.labels[rows])

    def instance(self, index: int) -> Any:
        """Return an example as an instance of a prediction request."""
        return self.format_instance(self.rows[index])

    def true_label(self, index: int) -> Any:
        """Return the label of an example for JSON: a class, a list of labels, or a number."""
        return self.label.shown(self.labels[index], self.names)

    def predicted_label(self, index: int) -> Any:
        """Return the prediction for an example, of the type of `true_label`."""
        [predicted] = self.label.predicted(self.predictions[index : index + 1])
        return self.label.shown(predicted, self.names)

    def confidence(self, index: int) -> float | None:
        """Return the probability of the predicted class; None for other kinds of labels."""
        return self.label.confidence(self.predictions[index : index + 1])[0]


def read_held_out(
    examples_dir: str,
    predictor: "Predictor",
    *,
    split: str = "test",
    rivals: Mapping[str, Predict] | None = None,
    columns: Iterable[str] = (),
) -> HeldOut:
    """Read a split, verify its checksums, and predict all its examples that have a label.

    The split need not fit into memory: of the examples, only a few are kept. `rivals` are
    functions of other models from raw features to predictions; the features `columns` are kept
    of all examples.

    Raises:
        trainer.errors.InputError: The examples are missing, damaged or another workload's, or a
            text is not UTF-8.
        StepError: No example has a label.
    """
    # These import TensorFlow.
    from trainer.examples.manifest import checked_split, read_manifest
    from trainer.examples.tables import Decoder, SplitChunks

    workload = predictor.workload
    manifest = read_manifest(examples_dir, workload=workload.name)
    decoder = Decoder(workload=workload, compression=manifest.compression, is_raw=True)
    checked = checked_split(manifest, split)
    chunks = SplitChunks(checked, decoder, most_rows=workload.num_rows_at_once)
    compiled = predictor.compiled_score()
    models = {"": predictor.predict_values, **(rivals or {})}
    predicted: dict[str, list[NDArray[Any]]] = {name: [] for name in models}
    kept: dict[str, list[NDArray[Any]]] = {name: [] for name in columns}
    known: list[NDArray[Any]] = []
    for features, labels in _labelled(chunks, workload.label):
        known.append(labels)
        for name, predict in models.items():
            predicted[name].append(workload.label.summarized(predict(features), labels))
        for name, values in kept.items():
            values.append(features[name].numpy())
        if compiled is not None:
            compiled.add(features, labels)
    if not known:
        raise StepError(
            f"no example of the split {split!r} has the label {workload.label.column!r}, so the "
            "model cannot be evaluated; give more examples, or other ratios of the splits"
        )
    labels = np.concatenate(known)
    predictions = {name: np.concatenate(pieces) for name, pieces in predicted.items()}
    own = predictions.pop("")
    golden = choose_golden(workload.label.groups(labels, NUM_GOLDEN), NUM_GOLDEN)
    sizes = workload.label.error_sizes(own, labels)
    mistakes = find_largest(sizes, NUM_SHOWN)
    labelled = (features for features, _ in _labelled(chunks, workload.label))
    rows = _rows(labelled, {*golden, *mistakes})
    with decoder.explaining_errors(checked.shards):
        for row in rows.values():
            workload.format_instance(row)
    return HeldOut(
        label=workload.label,
        names=workload.labels,
        labels=labels,
        predictions=own,
        golden=golden,
        mistakes=mistakes,
        rows=rows,
        format_instance=workload.format_instance,
        num_mistakes=int((sizes > 0).sum()),
        num_unlabelled=checked.num_examples - len(labels),
        compiled=compiled.results() if compiled is not None else {},
        rivals=predictions,
        columns={name: as_texts(np.concatenate(values)) for name, values in kept.items()},
    )


def predict_table(
    predict: Predict, features: Mapping[str, Any], labels: NDArray[Any], workload: Workload
) -> NDArray[Any]:
    """Return the predictions for a table in memory, as HeldOut has them."""
    size = workload.num_rows_at_once
    pieces = []
    for start in range(0, len(labels), size):
        rows = slice(start, start + size)
        is_part = len(labels) > size  # to slice thousands of columns takes as long as the model
        part = {name: column[rows] for name, column in features.items()} if is_part else features
        pieces.append(workload.label.summarized(predict(part), labels[rows]))
    return np.concatenate(pieces)


def as_texts(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column with texts instead of bytes."""
    if column.dtype != object:
        return column
    values, places = np.unique(column, return_inverse=True)
    texts = [value.decode(errors="replace") for value in values]
    return np.array(texts, dtype=object)[places]


def with_columns(
    predictions: NDArray[Any], names: Sequence[str], wanted: Sequence[str]
) -> NDArray[Any]:
    """Return probabilities with the columns of other names; one that is not known has zeros."""
    if tuple(names) == tuple(wanted):
        return predictions
    changed = np.zeros((len(predictions), len(wanted)), predictions.dtype)
    columns = {name: column for column, name in enumerate(names)}
    for at, name in enumerate(wanted):
        if name in columns:
            changed[:, at] = predictions[:, columns[name]]
    return changed


def choose_golden(groups: NDArray[Any], count: int) -> list[int]:
    """Return `count` indices: the first example of each group, then the first of the others."""
    chosen = np.unique(groups, return_index=True)[1][:count]
    rest = np.setdiff1d(np.arange(min(len(groups), 2 * count)), chosen)
    return [*chosen.tolist(), *rest.tolist()][:count]


def find_largest(sizes: NDArray[Any], count: int) -> list[int]:
    """Return the indices of the `count` largest sizes above 0, the largest first."""
    order = (-sizes).argsort(kind="stable")[:count]
    return [int(index) for index in order if sizes[index] > 0]


def _labelled(chunks: Iterable[Any], label: Label) -> Iterator[tuple[Any, NDArray[Any]]]:
    import tensorflow as tf

    for features, labels in chunks:
        is_labelled = label.find_labelled(labels.numpy())
        if is_labelled.all():
            yield features, labels.numpy()
        elif is_labelled.any():
            kept = {name: tf.boolean_mask(column, is_labelled) for name, column in features.items()}
            yield kept, labels.numpy()[is_labelled]


def _rows(chunks: Iterable[dict[str, Any]], indices: set[int]) -> dict[int, Row]:
    """Return rows of consecutive tables, by their index in all of them together."""
    rows: dict[int, Row] = {}
    start = 0
    for features in chunks:
        columns = {name: column.numpy() for name, column in features.items()}
        stop = start + len(next(iter(columns.values())))
        for index in indices.intersection(range(start, stop)):
            # A copy: a view would keep the whole column in memory.
            rows[index] = {name: copy(column[index - start]) for name, column in columns.items()}
        start = stop
    return rows
