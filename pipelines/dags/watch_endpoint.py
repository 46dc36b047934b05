"""Pipeline: skew and drift of an endpoint's requests, as a schedule runs it."""

from kfp import dsl

from components.endpoint.watch.component import watch_endpoint
from pipelines.dags.parts import LOCATION, torn_down


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
    with torn_down(keep_endpoint=True, on_failure_url=on_failure_url):
        watched = watch_endpoint(endpoint_name=endpoint_name, options=options, **LOCATION)
        watched.set_caching_options(False)
