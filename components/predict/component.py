"""The KFP component: the endpoint's traffic goes to a version that predicts as it did offline."""

from google_cloud_pipeline_components.types.artifact_types import VertexEndpoint, VertexModel
from kfp import dsl
from kfp.dsl import Artifact, Input, Markdown, Metrics, Output

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def predict(
    project: str,
    location: str,
    model: Input[VertexModel],
    endpoint: Input[VertexEndpoint],
    golden: Input[Artifact],
    metrics: Output[Metrics],
    table: Output[Markdown],
):
    """Moves the traffic to the version and compares the endpoint's answers with the offline ones.

    If they differ, the traffic goes back to where it was.

    Args:
        project: of the endpoint.
        location: of the endpoint.
        model: the version, which is deployed.
        endpoint: where it is deployed.
        golden: instances with offline predictions, JSON.
        metrics: latencies, and the largest difference of a probability.
        table: each prediction with its probability and the true label.
    """
    from components.endpoint.deployments import moved_traffic
    from components.predict.step import predict_golden
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    api = connect(project, location)
    name = endpoint.metadata["resourceName"]
    with moved_traffic(api, name, ResourceName.from_version_name(model.metadata["resourceName"])):
        predict_golden(
            api,
            endpoint=name,
            golden_path=golden.path,
            metrics=metrics,
            table_path=table.path,
        )
