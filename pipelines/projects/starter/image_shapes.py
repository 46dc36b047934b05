"""The size and the channels of images, as guessed from some of them."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.errors import DataError

MAX_OPENED = 300
LARGEST = 96  # pixels: images of one size up to it are not resized
DEFAULT_SIZE = (64, 64)
GREY = ("1", "L", "LA", "I", "I;16")


@dataclass(frozen=True)
class Shape:
    """Guess of the size and channels of images, and what was seen in words."""

    size: tuple[int, int]
    channels: int
    sizes: str
    modes: str


def guess_shape(paths: Sequence[Path]) -> Shape:
    """Return the shape for images, guessed from the first ones: their own, if it is one and small.

    Raises:
        DataError: none can be read.
    """
    sizes, modes = _seen(paths[:MAX_OPENED])
    [(most, count)] = sizes.most_common(1)
    is_same = count == sizes.total() and max(most) <= LARGEST
    return Shape(
        size=most if is_same else DEFAULT_SIZE,
        channels=1 if set(modes) <= set(GREY) else 3,
        sizes=_sizes_in_words(sizes, is_same=is_same),
        modes=", ".join(f"{mode} {number}" for mode, number in modes.most_common(3)),
    )


def _seen(paths: Sequence[Path]) -> tuple[Counter[tuple[int, int]], Counter[str]]:
    """Return how many images have each size, (height, width), and each mode."""
    from PIL import Image

    sizes, modes, wrong = Counter[tuple[int, int]](), Counter[str](), []
    for path in paths:
        try:
            with Image.open(path) as image:
                sizes[image.height, image.width] += 1
                modes[image.mode] += 1
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            wrong.append(f"{path}: {error}")
    if not sizes:
        raise DataError(f"no image can be read: {wrong[0]}")
    return sizes, modes


def _sizes_in_words(sizes: Counter[tuple[int, int]], *, is_same: bool) -> str:
    shown = itertools.islice(sizes.most_common(), 2)
    texts = [f"{height}x{width}" for (height, width), _ in shown]
    if is_same:
        return f"all are {texts[0]}"
    return f"files are {', '.join(texts)}{', …' if len(sizes) > len(texts) else ''}; resized"
