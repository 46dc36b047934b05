"""KFP component: the evaluation of a model, with a verdict."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from kfp import dsl
from kfp.dsl import HTML, Artifact, ClassificationMetrics, Dataset, Input, Metrics, Output

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(
    thresholds: str,
    examples: Input[Dataset],
    model: Input[UnmanagedContainerModel],
    metrics: Output[Metrics],
    confusion: Output[ClassificationMetrics],
    golden: Output[Artifact],
    report: Output[HTML],
    evaluation: Output[Artifact],
    gate: str = "{}",
    champion_version: str = "",
    champion_uri: str = "",
) -> NamedTuple("Outputs", [("verdict", str), ("reasons", str), ("challenger", str)]):  # type: ignore[valid-type]
    """Evaluate a model on the test split, and judge it by thresholds and by comparison.

    Args:
        thresholds: JSON, such as {"accuracy": 0.985} or {"rmse": {"at_most": 3.2}}.
        examples: The prepared dataset.
        model: The trained model.
        metrics: Every metric of the test split.
        confusion: The confusion matrix of classes.
        golden: Ten instances with the model's offline predictions, JSON.
        report: HTML page.
        evaluation: Everything that a report draws, JSON.
        gate: Settings of the gate beside the thresholds (GateOptions), a JSON object.
        champion_version: Resource name of the version to compare with; empty without one.
        champion_uri: Folder of its model.

    Returns:
        verdict: `passed` or `failed`; reasons: one line for each check; challenger: `yes` for a
        model that did not pass and is to be kept beside the default version.
    """
    from components.errors import errors_in_one_line
    from components.evaluate.gate.options import GateOptions
    from components.evaluate.step import evaluate_model

    report.uri += ".html"  # so that a browser opens it as a page
    with errors_in_one_line() as limit:
        options = GateOptions.from_json(gate)
        limit.set(options.timeout_seconds, setting="gate.timeout_seconds")
        judgement = evaluate_model(
            thresholds=thresholds,
            examples_dir=examples.path,
            model_dir=model.path,
            metrics=metrics,
            confusion=confusion,
            golden_path=golden.path,
            report_path=report.path,
            evaluation_path=evaluation.path,
            gate=gate,
            champion_version=champion_version,
            champion_uri=champion_uri,
        )
    is_kept = options.keep_challenger and bool(champion_version)
    challenger = "yes" if is_kept and not judgement.is_passed else "no"
    return (judgement.verdict, "\n".join(judgement.reasons), challenger)
