"""Parts that the pipelines share: the run's own project, location and name, and its exit task."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google_cloud_pipeline_components._placeholders import (
    LOCATION_PLACEHOLDER,
    PROJECT_ID_PLACEHOLDER,
)
from kfp import dsl

from components.teardown.component import teardown

LOCATION = {"project": PROJECT_ID_PLACEHOLDER, "location": LOCATION_PLACEHOLDER}
RUN = dsl.PIPELINE_JOB_NAME_PLACEHOLDER  # not a parameter: all runs of a schedule share those
# Of the steps that can be repeated, for one whose machine was lost. A launcher that was lost may
# have begun an upload or a deployment, which would be made twice; `release_model` moves traffic.
# Vertex AI itself restarts the launcher of a training job.
RETRY = {"num_retries": 1, "backoff_duration": "2s"}


@contextmanager
def torn_down(
    *, keep_endpoint: Any, on_failure_url: str, report_success: bool = False
) -> Iterator[None]:
    """Run the tasks of the block, and then `teardown`, also after a failure."""
    exit_task = teardown(
        run=RUN,
        keep_endpoint=keep_endpoint,
        on_failure_url=on_failure_url,
        report_success=report_success,
        **LOCATION,
    )
    exit_task.set_caching_options(False).set_retry(**RETRY)
    with dsl.ExitHandler(exit_task, name="run"):
        yield
