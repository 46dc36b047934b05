"""The KFP component: a deployed model must predict what it predicted offline."""

from google_cloud_pipeline_components.types.artifact_types import VertexEndpoint
from kfp import dsl
from kfp.dsl import Artifact, Input, Markdown, Metrics, Output

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def predict(
    project: str,
    location: str,
    endpoint: Input[VertexEndpoint],
    golden: Input[Artifact],
    metrics: Output[Metrics],
    table: Output[Markdown],
):
    """Sends the golden instances to the endpoint and compares its answers with the offline ones.

    Args:
        project: of the endpoint.
        location: of the endpoint.
        endpoint: where the model has been deployed.
        golden: instances with offline predictions, JSON.
        metrics: latencies, and the largest difference of a probability.
        table: each prediction with its probability and the true label.
    """
    from components.predict.step import predict_golden

    predict_golden(
        project,
        location,
        endpoint=endpoint.metadata["resourceName"],
        golden_path=golden.path,
        metrics=metrics,
        table_path=table.path,
    )
