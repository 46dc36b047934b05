"""Images inside an HTML page, without a file and without a library."""

import base64
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB = 0, 2
BIT_DEPTH = 8
NUM_GREY_DIMENSIONS = 2


def png(image: "NDArray[np.uint8]") -> bytes:
    """A PNG file of an image of shape (height, width), or (height, width, 3) for colour."""
    height, width = image.shape[:2]
    colour = GREY if image.ndim == NUM_GREY_DIMENSIONS else RGB
    header = struct.pack(">IIBBBBB", width, height, BIT_DEPTH, colour, 0, 0, 0)
    unfiltered_rows = b"".join(b"\0" + row.tobytes() for row in image)
    return (
        PNG_SIGNATURE
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(unfiltered_rows, 9))
        + _chunk(b"IEND", b"")
    )


def data_uri(image: "NDArray[np.uint8]") -> str:
    """The image as the address of an `<img>`."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
