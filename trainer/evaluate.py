"""Measures an exported model on a split of the examples."""

from dataclasses import dataclass

import numpy as np

from trainer import quiet
from trainer.workloads.base import Features


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model scores; `confusion` has true classes in rows, predicted ones in columns."""

    num_examples: int
    metrics: dict[str, float]
    labels: list[str]
    confusion: list[list[int]]


def evaluate(
    model_dir: str, examples_dir: str, *, split: str = "test", batch_size: int = 1000
) -> Evaluation:
    """Returns accuracy, loss (mean cross-entropy) and confusion matrix of a model on a split."""
    quiet.import_tensorflow()
    from trainer.export import load_predictor
    from trainer.input import checked_split, read_manifest, read_table

    predictor = load_predictor(model_dir)
    workload = predictor.workload
    manifest = read_manifest(examples_dir, workload=workload.name)
    files = checked_split(manifest, split)
    features, labels = read_table(files, workload, compression=manifest.compression)
    probabilities = np.concatenate(
        [
            predictor.answer(_rows(features, start, start + batch_size))["probabilities"]
            for start in range(0, files.num_examples, batch_size)
        ]
    )
    return score(probabilities, labels.numpy(), list(workload.labels))


def score(probabilities: np.ndarray, labels: np.ndarray, names: list[str]) -> Evaluation:
    """Returns the evaluation of predicted probabilities [examples, classes]."""
    predicted = probabilities.argmax(axis=1)
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(confusion, (labels, predicted), 1)
    likelihoods = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    return Evaluation(
        num_examples=len(labels),
        metrics={
            "accuracy": float((predicted == labels).mean()),
            "loss": float(-np.log(np.maximum(likelihoods, 1e-12)).mean()),
        },
        labels=names,
        confusion=confusion.tolist(),
    )


def _rows(features: Features, start: int, stop: int) -> Features:
    return {name: column[start:stop] for name, column in features.items()}
