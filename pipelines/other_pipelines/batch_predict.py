"""Pipeline: predictions of a model's promoted version for files, as a schedule runs it."""

from google_cloud_pipeline_components._placeholders import (
    LOCATION_PLACEHOLDER,
    PROJECT_ID_PLACEHOLDER,
)
from kfp import dsl

from components.batch_predict.component import batch_predict
from components.model_version.component import find_champion
from components.teardown.component import teardown


@dsl.pipeline(
    name="batch-predict",
    description="Predictions of a model's promoted version for the rows of files.",
)
def batch_predict_files(
    model_name: str,
    inputs: str,
    output_dir: str = "",
    options: str = "{}",
    on_failure_url: str = "",
):
    """Predict files with the version that has the alias default when the run starts.

    Args:
        model_name: Display name of the model.
        inputs: Paths or patterns of the files, separated by commas.
        output_dir: Folder of the predictions, which an earlier prediction's files may be in; empty:
            among the run's artifacts.
        options: Fields of PredictOptions (format, max_errors, …), a JSON object.
        on_failure_url: Web address that receives the summary of a run that did not succeed.
    """
    location = {"project": PROJECT_ID_PLACEHOLDER, "location": LOCATION_PLACEHOLDER}
    exit_task = teardown(
        run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
        keep_endpoint=True,
        on_failure_url=on_failure_url,
        **location,
    )
    exit_task.set_display_name("teardown").set_caching_options(False)
    with dsl.ExitHandler(exit_task, name="run"):
        champion = find_champion(display_name=model_name, **location).set_caching_options(False)
        batch_predict(
            model_uri=champion.outputs["model_uri"],
            inputs=inputs,
            output_dir=output_dir,
            options=options,
        ).set_caching_options(False)
