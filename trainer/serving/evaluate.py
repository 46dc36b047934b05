"""Measures an exported model on a split of the examples."""

from dataclasses import dataclass

import numpy as np

from trainer.runtime import tensorflow_logs

_BINARY = 2


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model scores; `confusion` has true classes in rows, predicted ones in columns."""

    num_examples: int
    metrics: dict[str, float]
    labels: list[str]
    confusion: list[list[int]]


def evaluate(model_dir: str, examples_dir: str, *, split: str = "test") -> Evaluation:
    """Returns metrics and confusion matrix of a model on a split."""
    tensorflow_logs.import_tensorflow()
    from trainer.examples.manifest import checked_split, read_manifest
    from trainer.examples.tables import Decoder, SplitChunks
    from trainer.serving.export import load_predictor

    predictor = load_predictor(model_dir)
    workload = predictor.workload
    manifest = read_manifest(examples_dir, workload=workload.name)
    files = checked_split(manifest, split)
    decoder = Decoder(workload=workload, compression=manifest.compression, is_raw=True)
    answers = [
        (predictor.answer(features)["probabilities"], labels.numpy())
        for features, labels in SplitChunks(files, decoder)
    ]
    probabilities, labels = map(np.concatenate, zip(*answers, strict=True))
    return score(probabilities, labels, list(workload.labels))


def score(probabilities: np.ndarray, labels: np.ndarray, names: list[str]) -> Evaluation:
    """Returns the evaluation of predicted probabilities [examples, classes].

    Metrics are accuracy, loss (mean cross-entropy) and, of two classes, the area under the ROC
    curve of the second.
    """
    predicted = probabilities.argmax(axis=1)
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(confusion, (labels, predicted), 1)
    likelihoods = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    metrics = {
        "accuracy": float((predicted == labels).mean()),
        "loss": float(-np.log(np.maximum(likelihoods, 1e-12)).mean()),
    }
    if len(names) == _BINARY:
        metrics["auc"] = area_under_curve(probabilities[:, 1], labels)
    return Evaluation(
        num_examples=len(labels), metrics=metrics, labels=names, confusion=confusion.tolist()
    )


def area_under_curve(scores: np.ndarray, labels: np.ndarray) -> float:
    """Returns the chance that an example of class 1 scores above one of class 0; ties count half.

    It is not a number when a class has no example.
    """
    _, ties, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[ties]
    num_true = int(labels.sum())
    num_pairs = num_true * (len(labels) - num_true)
    if not num_pairs:
        return float("nan")
    return float((ranks[labels == 1].sum() - num_true * (num_true + 1) / 2) / num_pairs)
