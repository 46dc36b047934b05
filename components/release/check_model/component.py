"""KFP component: the check of a model in its own prediction server."""

from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from kfp import dsl
from kfp.dsl import Artifact, Input, Metrics, Output

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def check_model(
    model: Input[UnmanagedContainerModel],
    golden: Input[Artifact],
    metrics: Output[Metrics],
    gate: str = "{}",
) -> int:
    """Start the model's prediction server in this step and send it requests of every kind.

    They have every wire form, 1 and 128 instances, and bad ones. Then the latency under load is
    measured, and compared with its limit if there is one.

    On Vertex AI a deployed model without traffic cannot get requests, so this is the last check
    before users' requests reach the model.

    Args:
        model: The trained model.
        golden: Instances with offline predictions, JSON.
        metrics: Latencies under load, and requests per second.
        gate: JSON with the limit `max_latency_ms` of the 99th percentile, and `latency_clients`.

    Returns:
        The number of predictions that were compared.
    """
    from components.errors import errors_in_one_line
    from components.release.check_model.step import check_served_model
    from components.shared.text.json_object import parse_object
    from components.time_limit import LONG_SECONDS

    with errors_in_one_line() as limit:
        options = parse_object(gate, name="gate")
        timeout_seconds = options.get("timeout_seconds", LONG_SECONDS)
        limit.set(timeout_seconds, setting="gate.timeout_seconds")
        return check_served_model(model.path, golden_path=golden.path, gate=gate, metrics=metrics)
