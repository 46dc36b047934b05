"""Decoding of image files of any size, the same in preparing and in prediction requests; PNGs.

Pillow is imported inside functions: light commands import the workloads.
"""

import io
import math
import re
from typing import Any

import numpy as np

from trainer.workloads.encoding.decoding import Decoding

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
_SIGNATURES = {
    "PNG": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "JPEG": re.compile(rb"\xff\xd8\xff"),
    "GIF": re.compile(rb"GIF8[79]a"),
    # Two letters begin many pictures of raw pixels; the size of a BMP's second header is one of 7.
    "BMP": re.compile(rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0{3}", re.DOTALL),
    "WebP": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "TIFF": re.compile(rb"II\*\0|MM\0\*"),
}
# Errors of Pillow for a damaged file.
DAMAGES = (OSError, SyntaxError, EOFError, IndexError, TypeError)
# 9,459 by 9,459; Pillow's limit for decompression bombs.
MAX_PIXELS = 89_478_485
_WHITE = 255
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_ORIENTATION = 0x0112  # the tag of EXIF; 1 is upright
_SIDEWAYS = (5, 6, 7, 8)
_SIXTEEN_BITS = 65_535
_DARK = _SIXTEEN_BITS // 4  # a picture of at most 14 bits looks like a dark one of 16
_DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "F")
_DEEP_COLOURS = re.compile(r";16[BLN]$")  # of which Pillow reads the upper 8 bits


def decode_image(data: bytes, form: Decoding) -> np.ndarray:
    """Return the pixels of a file that Pillow can read, uint8 [height, width, channels].

    The image is turned as its EXIF orientation says, and resized with antialiasing. Grey and
    palette images, and those with more than 8 bits, are converted; transparent pixels become white
    unless there are 4 channels. Of an animation the first frame is taken.

    Raises:
        ValueError: the file is not an image, is damaged, has too many pixels, or has more than 8
            bits and other values than the form says.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.size[0] * image.size[1] > MAX_PIXELS:
                raise ValueError(
                    f"it may be a decompression bomb: it has {image.size[0]:,} by"
                    f" {image.size[1]:,} pixels; at most {MAX_PIXELS:,} are allowed"
                )
            height, width = form.size
            image.draft(None, (2 * width, 2 * height))  # a large JPEG is decoded at less detail
            _check_colours(image, form.white)
            is_turned = image.getexif().get(_ORIENTATION, 1) != 1
            turned = ImageOps.exif_transpose(image) if is_turned else image  # it always copies
            if turned.mode in _DEEP_MODES:
                turned = Image.fromarray(_scaled(np.asarray(turned), form.white))
            plain = _converted(turned, _MODES[form.channels])
            return _resized(plain, (width, height), form.fit, form.channels)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"it may be a decompression bomb: {error}") from error
    except UnidentifiedImageError as error:
        kind = "is empty" if not data else "is not an image that Pillow can read"
        raise ValueError(f"the file {kind}") from error
    except DAMAGES as error:
        raise ValueError(f"the image is damaged: {error}") from error


def kind_of_file(data: bytes) -> str:
    """Return the kind of image file that data begins as, such as PNG; "" for none."""
    return next((kind for kind, form in _SIGNATURES.items() if form.match(data)), "")


def encode_png(image: np.ndarray) -> bytes:
    """Return a PNG file of an image [height, width] or [height, width, channels].

    It is made without TensorFlow: no fork is allowed after its first operation.
    """
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def upright_size(image: Any) -> tuple[int, int]:
    """Return height and width of an image as its EXIF orientation says."""
    is_sideways = image.getexif().get(_ORIENTATION) in _SIDEWAYS
    return image.size if is_sideways else image.size[::-1]


def white_above(value: float) -> int:
    """Return the value of white, all bits set, for pictures whose largest value this is."""
    return int(2 ** math.ceil(math.log2(max(value, 1) + 1))) - 1


def _scaled(values: np.ndarray, white: float | None) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    limit = float(np.float32(white or _SIXTEEN_BITS))  # as pictures of floats have it
    if not 0 <= low <= high <= limit:  # of NaN, too
        raise ValueError(
            f"its values are {low:g} to {high:g}, but must be 0 to white={limit:g}; shift or scale"
            " them, or write another white"
        )
    if white is None and (values.dtype.kind == "f" or 0 < high < _DARK):
        raise ValueError(
            f"its values are {low:g} to {high:g}, in a file for larger ones: to say which value is"
            f" white, write white={white_above(high)}, or white={_SIXTEEN_BITS} if pictures are"
            " dark"
        )
    exact = "float32" if values.itemsize == 2 else "float64"  # noqa: PLR2004
    return np.asarray(values.astype(exact) * _WHITE // limit, np.uint8)


def _check_colours(image: Any, white: float | None) -> None:
    """Raise ValueError if the upper 8 of 16 bits are not enough to see colours."""
    args = image.tile[0].args if image.tile else ""
    raw_mode = str(args[0] if isinstance(args, tuple) else args)
    if not _DEEP_COLOURS.search(raw_mode) or image.mode in _DEEP_MODES or white == _SIXTEEN_BITS:
        return
    colours = image.convert("RGB")
    high = max(high for _, high in colours.getextrema())
    if white or 0 < high <= _DARK * _WHITE // _SIXTEEN_BITS:
        raise ValueError(
            f"of colours with 16 bits the upper 8 are read, which are {high} at most: save it with"
            f" 8 bits, or write white={_SIXTEEN_BITS} if pictures are dark"
        )


def _converted(image: Any, mode: str) -> Any:
    from PIL import Image

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
