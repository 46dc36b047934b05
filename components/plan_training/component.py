"""KFP component: plan the training job and describe the model it will write."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def plan_training(
    workload: str,
    cluster: str,
    train: str,
    image: str,
    examples: dsl.Input[dsl.Dataset],
    model: dsl.Output[UnmanagedContainerModel],
    drift: dsl.Output[dsl.Artifact],
    comparison: str = "",
) -> NamedTuple(  # type: ignore[valid-type]
    "Plan",
    [
        ("worker_pool_specs", list),
        ("base_output_directory", str),
        ("timeout", str),
        ("restarts_whole_job", bool),
        ("scheduling_strategy", str),
        ("persistent_resource", str),
        ("explanation", str),
        ("verdict", str),
        ("reasons", str),
    ],
):
    """Turn the cluster into worker pools, and compare the examples with an earlier version's.

    The model is the `model/` that the job will write. The verdict is `train` or `nothing new`, and
    `drift` has the distances of the features, if a `comparison` is asked for (AskedComparison).
    """
    import logging
    from pathlib import Path

    from components.errors import errors_in_one_line
    from components.model_version.recorded import serving_container
    from components.plan_training.plan import plan_training
    from components.plan_training.shape import ClusterSpec
    from components.shared.text.json_object import parse_object
    from components.start.comparison import compare

    with errors_in_one_line():
        compared = compare(examples.path, comparison)
        plan = plan_training(
            workload,
            cluster=ClusterSpec.from_json(cluster),
            train=parse_object(train, name="train"),
            image=image,
            examples_uri=examples.uri,
        )
    Path(drift.path).write_text(compared.to_json(), encoding="utf-8")
    drift.metadata["drift"] = "\n".join(compared.words)
    logging.getLogger("plan_training").info(plan.explanation)
    base_output_directory = model.uri
    model.uri = f"{base_output_directory}/model"
    model.metadata["containerSpec"] = serving_container(image)
    return (
        plan.worker_pool_specs,
        base_output_directory,
        plan.timeout,
        plan.restarts_whole_job,
        plan.scheduling_strategy,
        plan.persistent_resource,
        plan.explanation,
        compared.news.verdict,
        "\n".join(compared.news.reasons),
    )
