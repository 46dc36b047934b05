"""KFP components: release of a new version, and service of a known one."""

from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexEndpoint,
    VertexModel,
)
from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def release_model(
    project: str,
    location: str,
    version: dsl.Input[VertexModel],
    endpoint: dsl.Input[VertexEndpoint],
    model: dsl.Input[UnmanagedContainerModel],
    examples: dsl.Input[dsl.Dataset],
    golden: dsl.Input[dsl.Artifact],
    thresholds: str,
    gate: str,
    champion_version: str,
    reasons: str,
    run: str,
    metrics: dsl.Output[dsl.Metrics],
    table: dsl.Output[dsl.Markdown],
    release: str = "{}",
) -> str:
    """Move the traffic and the alias `default` to a version, and return its resource name.

    Before that, the version answers logged requests and gets a share of the traffic, as `release`
    says; then its predictions must be the offline ones. If another version became the default
    since the evaluation, the model is compared with that one first. If anything fails, the traffic
    split is restored. Deployed versions without traffic are undeployed, except the previous one if
    `release` says so.

    Args:
        project: Project of the endpoint.
        location: Location of the endpoint.
        version: The version, which is deployed.
        endpoint: The endpoint that it is deployed to.
        model: Its files.
        examples: The prepared dataset, for another comparison.
        golden: Instances with offline predictions, JSON.
        thresholds: As in `evaluate`.
        gate: As in `evaluate`.
        champion_version: Resource name of the version that `evaluate` compared with.
        reasons: Reasons of the verdict, which become the version's description.
        run: Name of the run, for the model's history.
        metrics: Latencies, the largest difference from an offline prediction, and measurements of
            the replay and the canary.
        table: Each prediction with the true label.
        release: Settings (ReleaseOptions), a JSON object.
    """
    from components.errors import errors_in_one_line
    from components.evaluate.step import assess
    from components.release.options import ReleaseOptions
    from components.release.overlap import Contest
    from components.release.release import release_version
    from components.shared.vertex.api import connect
    from components.shared.vertex.resource_name import ResourceName

    api = connect(project, location)
    name = ResourceName.from_version_name(version.metadata["resourceName"])

    def judge(default):
        return assess(
            thresholds=thresholds,
            examples_dir=examples.path,
            model_dir=model.path,
            gate=gate,
            champion_version=default.version,
            champion_uri=default.model_uri,
        ).judgement

    contest = Contest(api, name, champion=champion_version, reasons=reasons, judge=judge)
    with errors_in_one_line() as limit:
        options = ReleaseOptions.from_json(release)
        timeout_seconds = options.timeout_seconds + options.canary_seconds
        limit.set(timeout_seconds, setting="release.timeout_seconds")
        release_version(
            api,
            endpoint.metadata["resourceName"],
            name,
            contest=contest,
            options=options,
            run=run,
            golden_path=golden.path,
            metrics=metrics,
            table_path=table.path,
        )
    return name.name


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
    from components.shared.text.json_object import read_object
    from components.shared.vertex.api import connect
    from components.shared.vertex.resource_name import ResourceName

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
