"""BentoML with its batching: `bentoml serve benchmarks.rivals.bentoml_server:Predictions`."""

import os
from typing import Any

import bentoml

from trainer.serve import load_ready_predictor


@bentoml.service(workers=1, traffic={"timeout": 60, "max_concurrency": 512})
class Predictions:
    """Predicts the instances of concurrent requests in one call."""

    def __init__(self) -> None:
        self.predictor = load_ready_predictor(os.environ["AIP_STORAGE_URI"])

    @bentoml.api(batchable=True, max_batch_size=128, max_latency_ms=10_000)
    def predict(self, instances: list[Any]) -> list[Any]:
        """Predict instances."""
        return self.predictor.predict(instances)
