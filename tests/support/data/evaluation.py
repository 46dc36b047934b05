"""Evaluation of an exported model, as the pipeline's step does it."""

from pathlib import Path

import numpy as np

from components.evaluate.held_out import read_held_out
from trainer.metrics.evaluate import Evaluation, score
from trainer.runtime.tensorflow_logs import import_tensorflow


def evaluate(model_dir: str | Path, examples_dir: str | Path, *, split: str = "test") -> Evaluation:
    """Return metrics and confusion matrix of a model on a split, as before its calibration."""
    import_tensorflow()
    from trainer.serving.export import load_predictor

    predictor = load_predictor(str(model_dir))
    data = read_held_out(str(examples_dir), predictor, split=split)
    likely = data.predictions
    if (temperature := predictor.decision.get("temperature", 1)) != 1:
        powers = likely.astype(np.float64) ** temperature
        likely = powers / powers.sum(axis=1, keepdims=True)
    return score(likely, data.labels, predictor.workload)
