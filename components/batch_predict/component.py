"""KFP component: predictions of a model for files, without an endpoint."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl import Artifact, Output

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def batch_predict(
    project: str,
    location: str,
    model_name: str,
    inputs: str,
    predictions: Output[Artifact],
    output_dir: str = "",
    options: str = "{}",
) -> NamedTuple("Outputs", [("num_rows", int), ("num_errors", int)]):  # type: ignore[valid-type]
    """Write the predictions of a model's default version for all rows of files.

    Args:
        project: Project of the model.
        location: Location of the model.
        model_name: Display name of the model.
        inputs: Paths or patterns of the files, separated by commas.
        predictions: The folder of the predictions.
        output_dir: Another place for that folder; empty: among the run's artifacts.
        options: Fields of PredictOptions, a JSON object.

    Returns:
        num_rows: number of predictions; num_errors: number of rows without one.
    """
    from components.batch_predict.options import PredictOptions
    from components.batch_predict.step import describe, predict_files
    from components.errors import StepError, errors_in_one_line
    from components.model_version.champion import check_replaced, find_champion
    from components.prepare_examples.settings.patterns import check_absolute
    from components.shared.vertex.api import connect
    from components.time_limit import A_DAY_SECONDS
    from trainer import paths
    from trainer.config.trust import OWN

    with errors_in_one_line() as limit:
        limit.set(A_DAY_SECONDS)
        champion = find_champion(connect(project, location), model_name)
        if not champion.version:
            raise StepError("the model has no promoted version yet; train one first")
        check_replaced(champion)
        patterns = inputs.split(",")
        check_absolute("inputs", *patterns)
        check_absolute("output_dir", output_dir)
        if output_dir:
            predictions.uri = paths.uri(output_dir)
        summary = predict_files(
            champion.model_uri,
            inputs=patterns,
            output_dir=output_dir or predictions.path,
            options=PredictOptions.from_json(options),
            trust=OWN,  # the version has been checked at its upload
        )
    counts = ("rows", "predictions", "errors", "seconds", "rows_per_second")
    predictions.metadata.update({name: summary[name] for name in counts})
    predictions.metadata["summary"] = describe(summary)
    return (summary["predictions"], summary["errors"])
