"""workload.py for class folders of images."""

from collections import Counter
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.folders import read_folder
from components.prepare_examples.tfrecords.shards import DEFAULT_RATIOS
from pipelines.projects.starter.folder import Start
from pipelines.projects.starter.image_shapes import guess_shape
from pipelines.projects.starter.keras_script import Script
from pipelines.projects.starter.pictures import table_hint

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
    try:
        found = read_folder(Path(folder), ratios=DEFAULT_RATIOS)
    except DataError as error:
        raise DataError(f"{error}{table_hint(folder)}") from error
    if len(found.classes) < 2:  # noqa: PLR2004
        raise DataError(f"{folder} has only one class folder, {found.classes[0]!r}; add the others")
    files = sorted(file for some in found.files.values() for file in some)
    counts = Counter(file.label for file in files)
    shape = guess_shape([found.root / file.path for file in files])
    size, channels = shape.size, shape.channels
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
        seen=shape.sizes,
        channels=channels,
        modes=shape.modes,
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
