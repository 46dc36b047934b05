"""KFP components: traffic for a new version, its promotion, and service of a known one."""

from google_cloud_pipeline_components.types.artifact_types import VertexEndpoint, VertexModel
from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def predict(
    project: str,
    location: str,
    model: dsl.Input[VertexModel],
    endpoint: dsl.Input[VertexEndpoint],
    golden: dsl.Input[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    table: dsl.Output[dsl.Markdown],
    release: str = "{}",
):
    """Move the traffic to a version and compare the endpoint's predictions with the offline ones.

    Before that, the version answers logged requests and gets a share of the traffic, as `release`
    says. If anything fails, the traffic split is restored.

    Args:
        project: Project of the endpoint.
        location: Location of the endpoint.
        model: The version, which is deployed.
        endpoint: The endpoint that it is deployed to.
        golden: Instances with offline predictions, JSON.
        metrics: Latencies, the largest difference from an offline prediction, and measurements of
            the replay and the canary.
        table: Each prediction with the true label.
        release: Settings (ReleaseOptions), a JSON object.
    """
    from components.errors import errors_in_one_line
    from components.release.options import ReleaseOptions
    from components.release.release import put_in_service
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    with errors_in_one_line() as limit:
        options = ReleaseOptions.from_json(release)
        timeout_seconds = options.timeout_seconds + options.canary_seconds
        limit.set(timeout_seconds, setting="release.timeout_seconds")
        put_in_service(
            connect(project, location),
            endpoint.metadata["resourceName"],
            ResourceName.from_version_name(model.metadata["resourceName"]),
            options=options,
            golden_path=golden.path,
            metrics=metrics,
            table_path=table.path,
        )


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def promote(
    project: str,
    location: str,
    model: dsl.Input[VertexModel],
    endpoint: dsl.Input[VertexEndpoint],
    reasons: str = "",
    run: str = "",
    release: str = "{}",
) -> str:
    """Move the alias `default` to this version and return its resource name.

    Deployed versions of the same model without traffic are undeployed, except the previous one if
    `release` says so. The reasons of the verdict become the version's description, the run's name
    goes into the model's history.
    """
    from components.endpoint.deployments import undeploy_idle
    from components.errors import errors_in_one_line
    from components.model_version.history import promoted_by
    from components.model_version.registry import set_default
    from components.release.options import ReleaseOptions
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    api = connect(project, location)
    version = ResourceName.from_version_name(model.metadata["resourceName"])
    with errors_in_one_line() as limit:
        options = ReleaseOptions.from_json(release)
        limit.set(options.timeout_seconds, setting="release.timeout_seconds")
        set_default(api, version, cause=promoted_by(run), reasons=reasons)
        undeploy_idle(
            api,
            endpoint.metadata["resourceName"],
            keep=version,
            keep_previous=options.keep_previous,
        )
    return version.name


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def serve_known(
    project: str,
    location: str,
    version: str,
    endpoint_name: str,
    machine: str,
    keep_endpoint: bool,
    run: str,
    golden: dsl.Input[dsl.Artifact],
    release: str = "{}",
) -> str:
    """Serve the registered version that is the same as the trained model, and return its name.

    It is deployed only if the endpoint is to be kept, or served another version before.
    """
    from components.errors import errors_in_one_line
    from components.model_version.golden import FIELDS
    from components.release.options import ReleaseOptions
    from components.release.release import serve_promoted
    from components.text.json_object import read_object
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    with errors_in_one_line() as limit:
        options = ReleaseOptions.from_json(release)
        limit.set(options.timeout_seconds, setting="release.timeout_seconds")
        serve_promoted(
            connect(project, location),
            ResourceName.from_version_name(version),
            endpoint_name=endpoint_name,
            machine=machine,
            keep_endpoint=keep_endpoint,
            run=run,
            golden=read_object(golden.path, *FIELDS),
            options=options,
        )
    return version
