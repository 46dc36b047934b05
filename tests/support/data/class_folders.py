"""Class folders of images."""

from collections.abc import Iterable
from pathlib import Path

from PIL import Image


def save_images(folder: Path, sizes: Iterable[tuple[int, int]], mode: str = "RGB") -> None:
    """Write an image of each size, which differ, for cats and for dogs."""
    for number, name in enumerate(["cats", "dogs"]):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for at, size in enumerate(sizes):
            Image.new(mode, size, 20 * at + number).save(folder / name / f"{at}.png")
