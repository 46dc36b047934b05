"""The pipelines: one that trains, and those that `trainyard compile --pipeline` writes."""

from collections.abc import Callable, Mapping
from typing import Any

BATCH_PREDICT, WATCH_ENDPOINT = "batch-predict", "watch-endpoint"


def _batch_predict() -> Any:
    from pipelines.dags.batch_predict import batch_predict_files

    return batch_predict_files


def _watch_endpoint() -> Any:
    from pipelines.dags.watch_endpoint import watch_one_endpoint

    return watch_one_endpoint


# Each returns a pipeline; KFP takes a second to import, so the pipelines are imported then.
PIPELINES: Mapping[str, Callable[[], Any]] = {
    BATCH_PREDICT: _batch_predict,
    WATCH_ENDPOINT: _watch_endpoint,
}
