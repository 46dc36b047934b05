"""KFP component: the evaluation of a model, with a verdict."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexModel,
)
from kfp import dsl
from kfp.dsl import HTML, Artifact, ClassificationMetrics, Dataset, Input, Metrics, Output

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(
    project: str,
    location: str,
    model_name: str,
    workload: str,
    train: str,
    thresholds: str,
    image: str,
    examples: Input[Dataset],
    model: Input[UnmanagedContainerModel],
    metrics: Output[Metrics],
    confusion: Output[ClassificationMetrics],
    latency: Output[Metrics],
    golden: Output[Artifact],
    report: Output[HTML],
    evaluation: Output[Artifact],
    parent_model: Output[VertexModel],
    gate: str = "{}",
    release: str = "{}",
) -> NamedTuple(  # type: ignore[valid-type]
    "Evaluated",
    [
        ("verdict", str),
        ("reasons", str),
        ("state", str),
        ("known_version", str),
        ("digest", str),
        ("champion_version", str),
        ("stop", str),
    ],
):
    """Judge a model by thresholds, by comparison, and by its own prediction server.

    Never cached, since the registry changes; but the results for the same model, examples, settings
    and champion are kept beside the model. On Vertex AI a deployed model without traffic cannot get
    requests, so this is the last check before users' requests reach the model.

    Args:
        project: Project of the run.
        location: Location of the run.
        model_name: Display name of the model.
        workload: Reference of the workload, to train it on folds.
        train: Settings of the training, a JSON object.
        thresholds: JSON, such as {"accuracy": 0.985} or {"rmse": {"at_most": 3.2}}.
        image: Image of the run; another one evaluates again.
        examples: The prepared dataset.
        model: The trained model.
        metrics: Every metric of the test split.
        confusion: The confusion matrix of classes.
        latency: Latencies of the prediction server under load, and requests per second.
        golden: Ten instances with the model's offline predictions, JSON.
        report: HTML page.
        evaluation: Everything that a report draws, JSON.
        parent_model: The model that a new version belongs to; its resource name is empty for a new
            model, as the launcher of `ModelUploadOp` takes it.
        gate: Settings of the gate beside the thresholds (GateOptions), a JSON object.
        release: Settings of the release (ReleaseOptions), of which `promote` and `approval` matter.

    Returns:
        verdict: `passed` or `failed`; reasons: one line for each check; state: of the version to
        upload, `candidate`, `waiting`, `challenger`, or empty for none; known_version: the version
        that is the same model, if it passed and may be served, else empty; digest: of the model's
        files; champion_version: the version that it was compared with; stop: why this run does not
        promote a model that passed, such as `held: by ann@desk …`, else empty.
    """
    from pathlib import Path

    from components.errors import errors_in_one_line
    from components.evaluate.case import Case
    from components.evaluate.step import course_of, evaluate_model, publish
    from components.model_version.champion import find_standing
    from components.plan_training.plan import trainer_args
    from components.shared.text.json_object import parse_object
    from components.shared.vertex.api import connect
    from components.time_limit import LONG_SECONDS

    report.uri += ".html"  # so that a browser opens it as a page
    with errors_in_one_line() as limit:
        settings = parse_object(gate, name="gate")
        timeout_seconds = settings.get("timeout_seconds", LONG_SECONDS)
        limit.set(timeout_seconds, setting="gate.timeout_seconds")
        standing = find_standing(connect(project, location), model_name, Path(model.path))
        case = Case(
            model_dir=model.path,
            examples_dir=examples.path,
            thresholds=thresholds,
            gate=gate,
            champion=standing.champion,
            flags=trainer_args({"workload": workload, **parse_object(train, name="train")}),
        )
        evaluated = evaluate_model(case, image=image).with_note(standing.words)
        publish(
            evaluated,
            metrics=metrics,
            confusion=confusion,
            latency=latency,
            golden_path=golden.path,
            report_path=report.path,
            evaluation_path=evaluation.path,
        )
    parent_model.metadata["resourceName"] = standing.parent
    evaluation.metadata["importance"] = evaluated.importance_text
    evaluation.metadata["folds"] = evaluated.folds_text
    judgement = evaluated.judgement
    asked = parse_object(release, name="release")
    course = course_of(judgement, standing, gate=settings, release=asked)
    return (
        judgement.verdict,
        "\n".join(judgement.reasons),
        course.state,
        course.known_version,
        standing.digest,
        standing.champion.version,
        course.stop,
    )
