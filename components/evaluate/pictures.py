"""Pictures of examples."""

import base64

import numpy as np

from components.evaluate.held_out import Row
from trainer.workloads.encoding.image_files import encode_png

IMAGE_DIMENSIONS = (2, 3)


def image_uri(row: Row) -> str:
    """Return the pixels of an example of images as the `src` of an `<img>`; "" without any."""
    image = row.get("image")
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        return ""
    if image.ndim not in IMAGE_DIMENSIONS:
        return ""
    return "data:image/png;base64," + base64.b64encode(encode_png(image)).decode("ascii")
