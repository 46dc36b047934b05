"""Images inside an HTML page, without a file."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def data_uri(image: NDArray[np.uint8]) -> str:
    """Return an image, of shape (height, width) or (height, width, 3), as the URI of a PNG."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
