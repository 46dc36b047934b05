"""The test split with the model's predictions for it."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trainer.serving.export import Predictor

NUM_GOLDEN = 10
NUM_MISTAKES = 24

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """True and predicted classes of a split; row i of each array belongs to example i.

    Attributes:
        labels: True classes [n].
        probabilities: Predicted probabilities [n, classes].
        golden: Indices of the examples whose predictions the deployed model must repeat.
        mistakes: Indices of the examples to show in the report.
        rows: Raw features of the golden examples and mistakes, by index.
        format_instance: Makes an instance from such a row.
    """

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    golden: list[int]
    mistakes: list[int]
    rows: dict[int, Row]
    format_instance: Callable[[Row], Any]

    def instance(self, index: int) -> Any:
        """Return an example as an instance of a prediction request."""
        return self.format_instance(self.rows[index])


def read_held_out(examples_dir: str, predictor: "Predictor", *, split: str = "test") -> HeldOut:
    """Read a split, verify its checksums, and predict all its examples.

    The split need not fit into memory: of the examples, only a few are kept.

    Raises:
        trainer.errors.InputError: The examples are missing, damaged or another workload's.
    """
    # These import TensorFlow.
    from trainer.examples.manifest import checked_split, read_manifest
    from trainer.examples.tables import Decoder, SplitChunks

    manifest = read_manifest(examples_dir, workload=predictor.workload.name)
    decoder = Decoder(workload=predictor.workload, compression=manifest.compression, is_raw=True)
    chunks = SplitChunks(checked_split(manifest, split), decoder)
    predicted = [
        (labels.numpy(), predictor.answer(features)["probabilities"]) for features, labels in chunks
    ]
    labels, probabilities = map(np.concatenate, zip(*predicted, strict=True))
    golden = choose_golden(labels.tolist(), NUM_GOLDEN)
    mistakes = find_mistakes(labels, probabilities, NUM_MISTAKES)
    return HeldOut(
        labels=labels,
        probabilities=probabilities,
        golden=golden,
        mistakes=mistakes,
        rows=_rows((features for features, _ in chunks), {*golden, *mistakes}),
        format_instance=predictor.workload.format_instance,
    )


def choose_golden(labels: Sequence[int], count: int) -> list[int]:
    """Return `count` indices: the first example of each class, then the first of the others."""
    first_of_class: dict[int, int] = {}
    for index, label in enumerate(labels):
        first_of_class.setdefault(int(label), index)
    chosen = [first_of_class[label] for label in sorted(first_of_class)]
    others = (index for index in range(len(labels)) if index not in chosen)
    return (chosen + [index for index, _ in zip(others, range(count), strict=False)])[:count]


def find_mistakes(
    labels: NDArray[np.int64], probabilities: NDArray[np.float32], count: int
) -> list[int]:
    """Return the indices of the wrong predictions with the highest probability, in that order."""
    wrong = (probabilities.argmax(axis=1) != labels).nonzero()[0]
    surest = (-probabilities[wrong].max(axis=1)).argsort(kind="stable")
    return [int(index) for index in wrong[surest][:count]]


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
