"""KFP component: skew and drift of an endpoint's requests."""

from kfp import dsl
from kfp.dsl import Artifact, Output

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def watch_endpoint(
    project: str,
    location: str,
    endpoint_name: str,
    result: Output[Artifact],
    options: str = "{}",
) -> str:
    """Compare an endpoint's logged requests with the training data and with earlier requests.

    The step fails if a feature has changed, and says which and how.

    Args:
        project: Project of the endpoint.
        location: Location of the endpoint.
        endpoint_name: Display name.
        result: Every feature with its distance, limit and verdict, JSON.
        options: Fields of WatchOptions, a JSON object.

    Returns:
        The result in words.
    """
    from pathlib import Path

    from components.endpoint.watch.options import WatchOptions
    from components.endpoint.watch.step import ALERT, record, watch
    from components.errors import StepError, errors_in_one_line
    from components.shared.vertex.api import connect

    api = connect(project, location)
    with errors_in_one_line():
        outcome = watch(api, endpoint_name, WatchOptions.from_json(options))
        record(api, outcome)
        result.metadata.update(verdict=outcome.verdict, words=outcome.words)
        Path(result.path).write_text(outcome.to_json(), encoding="utf-8")
        if outcome.verdict == ALERT:
            raise StepError(f"the requests of {endpoint_name} have changed: {outcome.words}")
    return outcome.words
