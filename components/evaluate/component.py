"""The KFP component: a verdict on a model."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from kfp import dsl
from kfp.dsl import HTML, Artifact, ClassificationMetrics, Dataset, Input, Metrics, Output

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(
    workload: str,
    thresholds: str,
    examples: Input[Dataset],
    model: Input[UnmanagedContainerModel],
    metrics: Output[Metrics],
    confusion: Output[ClassificationMetrics],
    golden: Output[Artifact],
    report: Output[HTML],
) -> NamedTuple("Outputs", [("verdict", str), ("reasons", str)]):  # type: ignore[valid-type]
    """Measures a model on the test split and says whether it reaches the thresholds.

    Args:
        workload: which data the model is for.
        thresholds: JSON, such as {"accuracy": 0.985}.
        examples: the prepared dataset.
        model: the trained model.
        metrics: every metric of the test split.
        confusion: the confusion matrix.
        golden: ten instances with the model's offline predictions, JSON.
        report: a page to look at.

    Returns:
        verdict: `passed` or `failed`; reasons: one for each threshold, a line each.
    """
    from components.evaluate.step import evaluate_model

    report.uri += ".html"  # so that a browser opens it as a page
    judgement = evaluate_model(
        workload,
        thresholds=thresholds,
        examples_dir=examples.path,
        model_dir=model.path,
        metrics=metrics,
        confusion=confusion,
        golden_path=golden.path,
        report_path=report.path,
    )
    return (judgement.verdict, "\n".join(judgement.reasons))
