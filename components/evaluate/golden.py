"""Golden predictions: what the model says offline, for the deployed model to repeat."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from components.evaluate.held_out import Example

NUM_GOLDEN = 10
NUM_MISTAKES = 24
NUM_SEARCHED = 2000
BATCH_SIZE = 500

Json = dict[str, Any]


class Predictor(Protocol):
    """What `trainer.export.load_predictor` answers."""

    def predict(self, instances: list[Any]) -> list[Json]:
        """One prediction for each instance."""


@dataclass(frozen=True)
class Mistake:
    """A test example and the wrong prediction for it."""

    example: Example
    prediction: Json


def choose_golden(examples: Iterable[Example], num_classes: int) -> list[Example]:
    """The first example of each class, filled up to ten with the first of the others.

    Reads only as far as it must: until every class has been seen.
    """
    first_of_class: dict[int, Example] = {}
    others: list[Example] = []
    for example in examples:
        if example.label not in first_of_class:
            first_of_class[example.label] = example
        elif len(others) < NUM_GOLDEN:
            others.append(example)
        if len(first_of_class) == num_classes and len(first_of_class) + len(others) >= NUM_GOLDEN:
            break
    chosen = [first_of_class[label] for label in sorted(first_of_class)] + others
    return chosen[:NUM_GOLDEN]


def golden_predictions(
    examples: Sequence[Example], predictor: Predictor, labels: Sequence[str]
) -> Json:
    """The golden file's content: instances, offline predictions and true labels."""
    instances = [example.instance for example in examples]
    return {
        "instances": instances,
        "predictions": predictor.predict(instances),
        "labels": [labels[example.label] for example in examples],
    }


def find_mistakes(examples: Iterable[Example], predictor: Predictor) -> tuple[list[Mistake], int]:
    """The first mistakes, at most 24 among the first 2,000 examples; and how many were searched."""
    mistakes: list[Mistake] = []
    num_searched = 0
    for batch in _batches(examples):
        predictions = predictor.predict([example.instance for example in batch])
        for example, prediction in zip(batch, predictions, strict=True):
            num_searched += 1
            if prediction["class"] != example.label:
                mistakes.append(Mistake(example, prediction))
            if len(mistakes) == NUM_MISTAKES:
                return mistakes, num_searched
    return mistakes, num_searched


def _batches(examples: Iterable[Example]) -> Iterator[list[Example]]:
    batch: list[Example] = []
    for example in itertools.islice(examples, NUM_SEARCHED):
        batch.append(example)
        if len(batch) == BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch
