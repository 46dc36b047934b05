"""Decoding of image files of any size, the same in preparing and in prediction requests; PNGs.

Pillow is imported inside functions: light commands import the workloads.
"""

import io
from typing import Any

import numpy as np

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
FITS = ("stretch", "crop", "pad")
CHANNELS = (1, 3, 4)
# 9,459 by 9,459; Pillow's limit for decompression bombs.
MAX_PIXELS = 89_478_485
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_ORIENTATION = 0x0112  # the tag of EXIF; 1 is upright
_SIXTEEN_BITS = 257  # 65,535 / 255


def check_image(size: Any, channels: Any, fit: Any) -> None:
    """Raise ValueError if images cannot be decoded in this way; names the argument."""
    is_pair = isinstance(size, tuple | list) and len(size) == 2  # noqa: PLR2004
    if not is_pair or not all(type(length) is int and length > 0 for length in size):
        raise ValueError(f"size is {size!r}; it must be (height, width), such as (64, 64)")
    if channels not in CHANNELS:
        raise ValueError(f"channels is {channels!r}; it must be 1, 3 or 4")
    if fit not in FITS:
        raise ValueError(f"fit is {fit!r}; it must be one of {', '.join(FITS)}")


def decode_image(
    data: bytes, *, size: tuple[int, int], channels: int = 3, fit: str = "stretch"
) -> np.ndarray:
    """Return an image file's pixels, uint8 [height, width, channels].

    The image is turned as its EXIF orientation says, and resized with antialiasing. Grey, palette
    and 16-bit images are converted; transparent pixels become white unless there are 4 channels. Of
    an animation the first frame is taken.

    Args:
        data: the content of a file that Pillow can read.
        size: height and width.
        channels: 1 for grey, 3 for RGB, 4 for RGBA.
        fit: `stretch` to the size, `crop` the middle, or `pad` with black, to keep the proportions.

    Raises:
        ValueError: the file is not an image, is damaged, or has too many pixels.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.size[0] * image.size[1] > MAX_PIXELS:
                raise ValueError(
                    f"it may be a decompression bomb: it has {image.size[0]:,} by"
                    f" {image.size[1]:,} pixels; at most {MAX_PIXELS:,} are allowed"
                )
            height, width = size
            image.draft(None, (2 * width, 2 * height))  # a large JPEG is decoded at less detail
            is_turned = image.getexif().get(_ORIENTATION, 1) != 1
            turned = ImageOps.exif_transpose(image) if is_turned else image  # it always copies
            plain = _converted(turned, _MODES[channels])
            return _resized(plain, (width, height), fit, channels)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"it may be a decompression bomb: {error}") from error
    except UnidentifiedImageError as error:
        kind = "is empty" if not data else "is not an image that Pillow can read"
        raise ValueError(f"the file {kind}") from error
    except (OSError, SyntaxError, EOFError, IndexError, TypeError) as error:
        raise ValueError(f"the image is damaged: {error}") from error


def encode_png(image: np.ndarray) -> bytes:
    """Return a PNG file of an image [height, width] or [height, width, channels].

    It is made without TensorFlow: no fork is allowed after its first operation.
    """
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def _converted(image: Any, mode: str) -> Any:
    from PIL import Image

    if image.mode in {"I", "I;16", "I;16B", "I;16L"}:
        grey = np.asarray(image).astype(np.int64) // _SIXTEEN_BITS
        image = Image.fromarray(grey.clip(0, 255).astype(np.uint8))
    has_alpha = image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info
    if has_alpha and mode != "RGBA":
        pixels = image.convert("RGBA")
        white = Image.new("RGBA", pixels.size, "white")
        image = Image.alpha_composite(white, pixels)
    return image if image.mode == mode else image.convert(mode)


def _resized(image: Any, size: tuple[int, int], fit: str, channels: int) -> np.ndarray:
    from PIL import Image, ImageOps

    if image.size != size:
        if fit == "crop":
            image = ImageOps.fit(image, size, Image.Resampling.BILINEAR)
        elif fit == "pad":
            image = ImageOps.pad(image, size, Image.Resampling.BILINEAR)
        else:
            image = image.resize(size, Image.Resampling.BILINEAR)
    return np.array(image, np.uint8).reshape(size[1], size[0], channels)
