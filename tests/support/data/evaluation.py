"""Evaluation of an exported model, as the pipeline's step does it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.held_out import read_held_out
from trainer.metrics.evaluation import Evaluation
from trainer.runtime.tensorflow_logs import import_tensorflow


def evaluate(model_dir: str | Path, examples_dir: str | Path, *, split: str = "test") -> Evaluation:
    """Return metrics and confusion matrix of a model on a split, as before its calibration."""
    import_tensorflow()
    from trainer.serving.export import load_predictor

    predictor = load_predictor(str(model_dir))
    if (temperature := predictor.decision.get("temperature", 1)) != 1:
        calibrated = predictor.predict_values

        def uncalibrated(features: Any) -> NDArray[Any]:
            powers = calibrated(features).astype(np.float64) ** temperature
            return powers / powers.sum(axis=1, keepdims=True)

        predictor.predict_values = uncalibrated
    return replace(read_held_out(str(examples_dir), predictor, split=split), compiled={}).score()
