"""KFP component: the version of a model that is promoted, for Google's operators."""

from google_cloud_pipeline_components.types.artifact_types import VertexModel
from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def find_version(
    project: str, location: str, model_name: str, model: dsl.Output[VertexModel]
) -> str:
    """Find the promoted default version of a model.

    Args:
        project: Project of the model.
        location: Location of the model.
        model_name: Display name of the model.
        model: The version.

    Returns:
        Resource name of the version.
    """
    from components.errors import StepError, errors_in_one_line
    from components.model_version.champion import check_replaced, find_champion
    from components.shared.vertex.api import connect

    api = connect(project, location)
    with errors_in_one_line():
        champion = find_champion(api, model_name)
        if not champion.version:
            raise StepError("the model has no promoted version yet; train one first")
        check_replaced(champion)
        model.metadata["resourceName"] = champion.version
    return champion.version
