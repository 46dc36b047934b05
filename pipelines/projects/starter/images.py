"""workload.py for class folders of images."""

import itertools
from collections import Counter
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.folders import read_folder
from components.prepare_examples.tfrecords.shards import DEFAULT_RATIOS
from pipelines.projects.starter.folder import Start
from pipelines.projects.starter.keras_script import Script

MAX_OPENED = 300
LARGEST = 96  # pixels: images of one size up to it are not resized
DEFAULT_SIZE = (64, 64)
GREY = ("1", "L", "LA", "I", "I;16")
FEWEST = 10  # images of a class
SOURCE = '''\
"""{title}

Written by `trainyard new`. Comments say what was seen.
"""

{imports}
{model}
workload = ImageFolder(
    size={size},  # {seen}
    channels={channels},  # {modes}
{more})
'''


def start_images(folder: str, *, script: Script | None = None) -> Start:
    """Return the folder's content for class folders of images.

    Raises:
        DataError: there are no class folders, only one, or one is empty.
    """
    found = read_folder(Path(folder), ratios=DEFAULT_RATIOS)
    if len(found.classes) < 2:  # noqa: PLR2004
        raise DataError(f"{folder} has only one class folder, {found.classes[0]!r}; add the others")
    files = sorted(file for some in found.files.values() for file in some)
    counts = Counter(file.label for file in files)
    sizes, modes = _seen([found.root / file.path for file in files[:MAX_OPENED]])
    [(most, count)] = sizes.most_common(1)
    is_same = count == sizes.total() and max(most) <= LARGEST
    size, channels = most if is_same else DEFAULT_SIZE, 1 if set(modes) <= set(GREY) else 3
    if script and script.shape:
        size, channels = script.shape[:2], script.shape[2]
    rare = [(found.classes[at], counts[at]) for at in counts if counts[at] < FEWEST]
    shown = [f"{name} {counts[at]:,}" for at, name in enumerate(found.classes)]
    names = "ImageFolder"
    workload = SOURCE.format(
        title=f"{len(files):,} images: {', '.join(shown[:8])}{', …' if len(shown) > 8 else ''}.",  # noqa: PLR2004
        imports="\n".join(
            [*(script.imports if script else ()), f"from trainer.workloads import {names}"]
        ),
        model=script.adapter("inputs") if script else "",
        size=tuple(size),
        seen=_sizes_in_words(sizes, is_same=is_same),
        channels=channels,
        modes=", ".join(f"{mode} {number}" for mode, number in modes.most_common(3)),
        more="    model=model,\n" if script else "",
    )
    share = max(counts.values()) / len(files)
    return Start(
        workload=workload,
        data=(folder,),
        num_examples=len(files),
        thresholds="{accuracy: 0.8}",
        remark=f"always the most frequent class: accuracy {share:.3f}",
        notes=tuple(f"the class {name} has only {number} images" for name, number in rare),
        code=script.files if script else {},
    )


def _seen(paths: list[Path]) -> tuple[Counter[tuple[int, int]], Counter[str]]:
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
