"""KFP component: the check that the prediction server repeats the offline predictions."""

from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from kfp import dsl
from kfp.dsl import Artifact, Input

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def check_model(model: Input[UnmanagedContainerModel], golden: Input[Artifact]) -> int:
    """Start the model's prediction server in this step and send it requests in every wire form.

    On Vertex AI a deployed model without traffic cannot get requests, so this is the last check
    before users' requests reach the model.

    Args:
        model: The trained model.
        golden: Instances with offline predictions, JSON.

    Returns:
        The number of predictions that were compared.
    """
    from components.check_model.step import check_served_model
    from components.errors import errors_in_one_line

    with errors_in_one_line():
        return check_served_model(model.path, golden_path=golden.path)
