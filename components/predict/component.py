"""KFP component: the endpoint's traffic goes to a version that predicts as it did offline."""

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
    """Move the traffic to a version and compare the endpoint's predictions with the offline ones.

    If they differ, the traffic split is restored.

    Args:
        project: Project of the endpoint.
        location: Location of the endpoint.
        model: The version, which is deployed.
        endpoint: The endpoint that it is deployed to.
        golden: Instances with offline predictions, JSON.
        metrics: Latencies, and the largest difference from an offline prediction.
        table: Each prediction with the true label.
    """
    from components.endpoint.deployments import moved_traffic
    from components.errors import errors_in_one_line
    from components.predict.step import predict_golden
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    api = connect(project, location)
    name = endpoint.metadata["resourceName"]
    version = ResourceName.from_version_name(model.metadata["resourceName"])
    with errors_in_one_line(), moved_traffic(api, name, version):
        predict_golden(
            api,
            endpoint=name,
            golden_path=golden.path,
            metrics=metrics,
            table_path=table.path,
        )
