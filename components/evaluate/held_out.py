"""The test split as the model saw it: what it was asked, what is true, what it answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trainer.export import Predictor

BATCH_SIZE = 1000


@dataclass(frozen=True)
class HeldOut:
    """A split's examples and answers; row i of each array belongs to example i.

    `features` are raw, by name; `labels` the true classes [n]; `probabilities` [n, classes];
    `format_instance` makes an instance of one row of features.
    """

    features: "dict[str, NDArray[Any]]"
    labels: "NDArray[np.int64]"
    probabilities: "NDArray[np.float32]"
    format_instance: Callable[[dict[str, Any]], Any]

    def instance(self, index: int) -> Any:
        """An example as it is sent to an endpoint."""
        return self.format_instance({name: column[index] for name, column in self.features.items()})


def read_held_out(examples_dir: str, predictor: "Predictor", *, split: str = "test") -> HeldOut:
    """Reads a split, checksums included, and asks the model about all of it.

    Raises:
        trainer.errors.InputError: the examples are missing, damaged or another workload's.
    """
    import numpy as np

    from trainer.input import read_table
    from trainer.manifest import checked_split, read_manifest

    manifest = read_manifest(examples_dir, workload=predictor.workload.name)
    files = checked_split(manifest, split)
    table, labels = read_table(
        files, predictor.workload, compression=manifest.compression, raw=True
    )
    features = {name: column.numpy() for name, column in table.items()}
    starts = range(0, files.num_examples, BATCH_SIZE)
    batches = [
        {name: column[start : start + BATCH_SIZE] for name, column in features.items()}
        for start in starts
    ]
    probabilities = np.concatenate([predictor.answer(batch)["probabilities"] for batch in batches])
    return HeldOut(
        features=features,
        labels=labels.numpy(),
        probabilities=probabilities,
        format_instance=predictor.workload.format_instance,
    )


def choose_golden(labels: Sequence[int], count: int) -> list[int]:
    """The indices of the first example of each class, then of the first others: `count` in all."""
    first_of_class: dict[int, int] = {}
    for index, label in enumerate(labels):
        first_of_class.setdefault(int(label), index)
    chosen = [first_of_class[label] for label in sorted(first_of_class)]
    others = (index for index in range(len(labels)) if index not in chosen)
    return (chosen + [index for index, _ in zip(others, range(count), strict=False)])[:count]


def find_mistakes(held_out: HeldOut, count: int) -> list[int]:
    """The indices of the wrong answers that the model was surest of, the surest first."""
    predicted = held_out.probabilities.argmax(axis=1)
    wrong = (predicted != held_out.labels).nonzero()[0]
    surest = (-held_out.probabilities[wrong].max(axis=1)).argsort(kind="stable")
    return [int(index) for index in wrong[surest][:count]]
