"""Google's prebuilt prediction images, which bring the server of their framework themselves.

https://cloud.google.com/vertex-ai/docs/predictions/pre-built-containers
"""

import functools
import importlib.util
import logging
import re
import sys

from vertex_local.errors import failed_precondition

logger = logging.getLogger(__name__)

IMAGE = re.compile(r".+/prediction/(?P<name>[a-z]+)[0-9]?-[a-z]+\.[^/]+")
MODULES = {"tf": "tensorflow", "xgboost": "xgboost"}  # by the first word of the image's name
SERVER = "vertex_local.endpoints.prebuilt_server"


def command(image: str, *, model: str) -> list[str]:
    """Return the command of the server that stands for an image; none for another image.

    Raises:
        ApiError: FAILED_PRECONDITION: nothing stands for this image on this machine.
    """
    match = IMAGE.fullmatch(image)
    if not match:
        return []
    module = MODULES.get(match["name"])
    if module is None:
        raise failed_precondition(
            f"{model} has Google's image {image} and no containerSpec.command; this service has "
            f"a server for images of {' and '.join(MODULES.values())} only. Those of scikit-learn "
            "and PyTorch load pickled models, which run any code in them. Upload the model with "
            "the command of a prediction server."
        )
    if importlib.util.find_spec(module) is None:
        raise failed_precondition(
            f"{model} has Google's image {image} and no containerSpec.command, so {module} in this "
            f"service's Python would serve it, but is not installed. {sys.executable} -m pip "
            f"install {module}, or upload the model with the command of a prediction server."
        )
    _warn(model, image, module)
    return ["python", "-m", SERVER, module]


@functools.cache  # not at each start of its server
def _warn(model: str, image: str, module: str) -> None:
    logger.warning(
        "%s: instead of the image %s, the %s of %s serves it, whatever the version in the image's "
        "name; containerSpec.command names another server",
        model,
        image,
        module,
        sys.executable,
    )
