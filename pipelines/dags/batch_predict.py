"""Pipeline: predictions of a model's promoted version for files, as a schedule runs it."""

from kfp import dsl

from components.batch_predict.component import batch_predict
from pipelines.dags.parts import LOCATION, torn_down


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
    with torn_down(keep_endpoint=True, on_failure_url=on_failure_url):
        predicted = batch_predict(
            model_name=model_name, inputs=inputs, output_dir=output_dir, options=options, **LOCATION
        )
        predicted.set_caching_options(False)
