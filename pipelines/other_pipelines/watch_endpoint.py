"""Pipeline: skew and drift of an endpoint's requests, as a schedule runs it."""

from google_cloud_pipeline_components._placeholders import (
    LOCATION_PLACEHOLDER,
    PROJECT_ID_PLACEHOLDER,
)
from kfp import dsl

from components.endpoint.watch.component import watch_endpoint
from components.teardown.component import teardown


@dsl.pipeline(
    name="watch-endpoint",
    description="Skew of an endpoint's requests from the training data, and drift over time.",
)
def watch_one_endpoint(endpoint_name: str, options: str = "{}", on_failure_url: str = ""):
    """Compare an endpoint's last requests with the training data and with those before them.

    The run fails if a feature has changed.

    Args:
        endpoint_name: Display name of the endpoint.
        options: Fields of WatchOptions (last, min_instances, thresholds), a JSON object.
        on_failure_url: Web address that receives the summary of a run that did not succeed.
    """
    location = {"project": PROJECT_ID_PLACEHOLDER, "location": LOCATION_PLACEHOLDER}
    exit_task = teardown(
        run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
        keep_endpoint=True,
        on_failure_url=on_failure_url,
        **location,
    )
    exit_task.set_display_name("teardown").set_caching_options(False)
    with dsl.ExitHandler(exit_task, name="run"):
        watch_endpoint(
            endpoint_name=endpoint_name, options=options, **location
        ).set_caching_options(False)
