"""KFP components: record of a new version, and release of a new or a known one."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexEndpoint,
    VertexModel,
)
from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def record_version(
    project: str,
    location: str,
    run: str,
    endpoint_name: str,
    state: str,
    model: dsl.Input[VertexModel],
    evaluation: dsl.Input[dsl.Artifact],
    verdict: str,
    reasons: str,
    version: dsl.Output[VertexModel],
    endpoint: dsl.Output[VertexEndpoint],
    serving: str = "{}",
) -> NamedTuple(  # type: ignore[valid-type]
    "Recorded",
    [("Output", str), ("machine", str), ("gpu", str), ("gpus", int), ("least", int), ("most", int)],
):
    """Attach the evaluation to an uploaded version, and find or create the endpoint to deploy to.

    Args:
        project: Project of the run.
        location: Location of the run.
        run: Name of the run.
        endpoint_name: Display name of the endpoint.
        state: `candidate`, or `challenger` or `waiting` for a version that is not to be deployed.
        model: The uploaded version.
        evaluation: Its evaluation, JSON.
        verdict: Its verdict.
        reasons: The reasons, which become the version's description.
        version: The version, moved to the model that another run created at the same time.
        endpoint: The endpoint. Its metadata tells the teardown whether it served before this run;
            if so, it serves afterwards.
        serving: Machines of the endpoint (ServingOptions), a JSON object.

    Returns:
        Resource name of the version; machine, GPUs and replicas as `ModelDeployOp` takes them.
    """
    from components.endpoint.deployments import is_serving
    from components.endpoint.ensure import ensure_endpoint
    from components.errors import errors_in_one_line
    from components.model_version.recorded import record_evaluation
    from components.release.options import ServingOptions
    from components.shared.text.json_object import read_object
    from components.shared.vertex.api import connect
    from components.shared.vertex.creations import endpoint_id_of
    from components.shared.vertex.labels import CANDIDATE
    from components.shared.vertex.resource_name import ResourceName
    from components.shared.vertex.task_details import SERVED_BEFORE

    api = connect(project, location)
    uploaded = ResourceName.from_version_name(model.metadata["resourceName"])
    with errors_in_one_line():
        resources = ServingOptions.from_json(serving).resources
        content = read_object(evaluation.path, "label_kind", "metrics")
        name = record_evaluation(
            api, uploaded, content, verdict=verdict, reasons=reasons, state=state
        ).name
        version.metadata["resourceName"] = name
        if state == CANDIDATE:
            own = endpoint_id_of(run)
            found = ensure_endpoint(api, endpoint_name, run=run, endpoint_id=own)
            endpoint.metadata["resourceName"] = found["name"]
            endpoint.metadata[SERVED_BEFORE] = "yes" if is_serving(found) else "no"
    machine = resources["machineSpec"]
    return (
        name,
        machine["machineType"],
        machine.get("acceleratorType", ""),
        machine.get("acceleratorCount", 0),
        resources["minReplicaCount"],
        resources["maxReplicaCount"],
    )


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def release_model(
    project: str,
    location: str,
    run: str,
    version: str,
    is_known: bool,
    endpoint_name: str,
    keep_endpoint: bool,
    model: dsl.Input[UnmanagedContainerModel],
    examples: dsl.Input[dsl.Dataset],
    golden: dsl.Input[dsl.Artifact],
    thresholds: str,
    gate: str,
    champion_version: str,
    reasons: str,
    metrics: dsl.Output[dsl.Metrics],
    table: dsl.Output[dsl.Markdown],
    evaluation: dsl.Input[dsl.Artifact],
    release: str = "{}",
    serving: str = "{}",
) -> NamedTuple(  # type: ignore[valid-type]
    "Released", [("Output", str), ("promoted", str)]
):
    """Serve a version, and make it the default unless it is.

    Args:
        project: Project of the endpoint.
        location: Location of the endpoint.
        run: Name of the run, for the model's history.
        version: Resource name of the version. A new one is deployed.
        is_known: The version equals the trained model, and is registered already. It is deployed
            only if the endpoint is to be kept, or served another version before.
        endpoint_name: Display name of the endpoint.
        keep_endpoint: Keep the version deployed after the run.
        model: The trained model.
        examples: The prepared dataset, for another comparison.
        golden: Instances with offline predictions, JSON.
        thresholds: As in `evaluate`.
        gate: As in `evaluate`.
        champion_version: Resource name of the version that `evaluate` compared with.
        reasons: Reasons of the verdict, which become the version's description.
        metrics: Latencies, the largest difference from an offline prediction, and measurements of
            the replay and the canary; empty for a known version.
        table: Each prediction with the true label.
        evaluation: Content of evaluation.json, for a known version that becomes the default again.
        release: Settings (ReleaseOptions), a JSON object.
        serving: Machines of the endpoint (ServingOptions), a JSON object.

    Returns:
        Output: resource name of the version; promoted: the same if this run made it the default.
    """
    from components.endpoint.deployments import scale
    from components.errors import errors_in_one_line
    from components.model_version.champion import default_champion
    from components.model_version.companions import GOLDEN_FIELDS
    from components.model_version.history import cause_of
    from components.model_version.recorded import record_evaluation
    from components.release.options import ReleaseOptions, ServingOptions
    from components.release.overlap import Contest
    from components.release.release import Release, promote_known, release_version, serve_promoted
    from components.shared.text.json_object import read_object
    from components.shared.vertex.api import connect
    from components.shared.vertex.labels import PROMOTED
    from components.shared.vertex.resource_name import ResourceName

    api = connect(project, location)
    name = ResourceName.from_version_name(version)

    def judge(default):
        from components.evaluate.assess import assess
        from components.evaluate.case import Case

        case = Case(
            model_dir=model.path,
            examples_dir=examples.path,
            thresholds=thresholds,
            gate=gate,
            champion=default,
        )
        return assess(case).judgement

    with errors_in_one_line() as limit:
        options = ReleaseOptions.from_json(release)
        canary_seconds = options.canary_seconds * len(options.canary)
        timeout_seconds = options.timeout_seconds + canary_seconds
        limit.set(timeout_seconds, setting="release.timeout_seconds")
        resources = ServingOptions.from_json(serving).resources
        contest = Contest(api, name, champion=champion_version, reasons=reasons, judge=judge)
        released = Release(
            contest=contest,
            endpoint_name=endpoint_name,
            options=options,
            cause=cause_of(PROMOTED, run),
            golden=read_object(golden.path, *GOLDEN_FIELDS),
            metrics=metrics,
            table_path=table.path,
            resources=resources,
            keep_endpoint=keep_endpoint,
            run=run,
        )
        default = default_champion(api, name.unversioned).version
        if not is_known:
            # `ModelDeployOp` takes no autoscaling target.
            scale(api, released.find_endpoint() or {}, name, resources)
            release_version(released)
        elif default == champion_version != version:
            promote_known(released)
            content = read_object(evaluation.path, "label_kind", "metrics")
            reasons = contest.reasons
            record_evaluation(api, name, content, verdict="passed", reasons=reasons, state="")
        else:
            serve_promoted(released)
            return version, ""
    return version, version
