"""The test split as the model saw it: what it was asked, what is true, what it answered."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trainer.serving.export import Predictor

NUM_GOLDEN = 10
NUM_MISTAKES = 24

Row = dict[str, Any]


@dataclass(frozen=True)
class HeldOut:
    """A split's true classes and the model's answers; row i of each array belongs to example i.

    `labels` the true classes [n]; `probabilities` [n, classes]; `rows` the raw features, by index,
    of those examples that are sent or shown; `format_instance` makes an instance of such a row.
    """

    labels: "NDArray[np.int64]"
    probabilities: "NDArray[np.float32]"
    rows: dict[int, Row]
    format_instance: Callable[[Row], Any]

    def instance(self, index: int) -> Any:
        """An example as it is sent to an endpoint."""
        return self.format_instance(self.rows[index])


def read_held_out(examples_dir: str, predictor: "Predictor", *, split: str = "test") -> HeldOut:
    """Reads a split, checksums included, and asks the model about all of it.

    Whole it need not fit into memory: of the examples, only a few are kept.

    Raises:
        trainer.errors.InputError: the examples are missing, damaged or another workload's.
    """
    import numpy as np

    from trainer.examples.manifest import checked_split, read_manifest
    from trainer.examples.tables import Decoder, SplitChunks

    manifest = read_manifest(examples_dir, workload=predictor.workload.name)
    decoder = Decoder(workload=predictor.workload, compression=manifest.compression, is_raw=True)
    chunks = SplitChunks(checked_split(manifest, split), decoder)
    answers = [
        (labels.numpy(), predictor.predict_batch(features)["probabilities"])
        for features, labels in chunks
    ]
    labels, probabilities = map(np.concatenate, zip(*answers, strict=True))
    golden = choose_golden(labels.tolist(), NUM_GOLDEN)
    mistakes = find_mistakes(labels, probabilities, NUM_MISTAKES)
    return HeldOut(
        labels=labels,
        probabilities=probabilities,
        rows=_rows((features for features, _ in chunks), {*golden, *mistakes}),
        format_instance=predictor.workload.format_instance,
    )


def _rows(chunks: Iterable[dict[str, Any]], indices: set[int]) -> dict[int, Row]:
    """The rows of tables that come one after the other, by their index in all of them."""
    rows: dict[int, Row] = {}
    start = 0
    for features in chunks:
        columns = {name: column.numpy() for name, column in features.items()}
        stop = start + len(next(iter(columns.values())))
        for index in indices.intersection(range(start, stop)):
            # A copy: a view would keep the whole column.
            rows[index] = {name: copy(column[index - start]) for name, column in columns.items()}
        start = stop
    return rows


def choose_golden(labels: Sequence[int], count: int) -> list[int]:
    """The indices of the first example of each class, then of the first others: `count` in all."""
    first_of_class: dict[int, int] = {}
    for index, label in enumerate(labels):
        first_of_class.setdefault(int(label), index)
    chosen = [first_of_class[label] for label in sorted(first_of_class)]
    others = (index for index in range(len(labels)) if index not in chosen)
    return (chosen + [index for index, _ in zip(others, range(count), strict=False)])[:count]


def find_mistakes(
    labels: "NDArray[np.int64]", probabilities: "NDArray[np.float32]", count: int
) -> list[int]:
    """The indices of the wrong answers that the model was surest of, the surest first."""
    wrong = (probabilities.argmax(axis=1) != labels).nonzero()[0]
    surest = (-probabilities[wrong].max(axis=1)).argsort(kind="stable")
    return [int(index) for index in wrong[surest][:count]]
