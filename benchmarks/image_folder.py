"""Class folders of PNGs to TFRecords: prepare_examples against a plain loop of Pillow.

The plain loop runs in one process per core. It opens, converts and resizes each image and keeps its
bytes; it writes nothing. prepare_examples also lists and digests the files, splits them, counts
pixels, labels and copies, and writes gzipped TFRecords. Other programs disturb the CPU time per
image less than the speed.

    python -m benchmarks.image_folder --images 20000
"""

import argparse
import io
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.support.new_process import run_in_new_process
from benchmarks.support.report import report

NUM_CLASSES = 10
SIZE = (64, 64)
WORKLOAD = f"""\
from trainer.workloads import ImageFolder
workload = ImageFolder(size={SIZE})
"""


class Usage(NamedTuple):
    """Seconds that passed, and seconds of CPU time of all processes."""

    seconds: float
    cpu_seconds: float


def main() -> None:
    """Print one comparison as a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--run", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        sys.stdout.write(json.dumps(measure(*args.run)) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder, "images"), args.images)
        Path(folder, "project").mkdir()
        Path(folder, "project", "workload.py").write_text(WORKLOAD, encoding="utf-8")
        found: dict[str, list[Usage]] = {"ours": [], "plain": []}
        for _ in range(args.rounds):
            for way, usages in found.items():
                usages.append(Usage(*run_in_new_process("image_folder", way, folder)))
    ours, plain = found.values()
    report(
        "image_folder_plain_pil",
        ours=[args.images / usage.seconds for usage in ours],
        theirs=[args.images / usage.seconds for usage in plain],
        unit="images/s",
        cpu_ms=cpu_ms(ours, args.images),
        cpu_ms_plain=cpu_ms(plain, args.images),
        images=args.images,
        load=os.getloadavg()[0],
    )


def cpu_ms(usages: list[Usage], images: int) -> float:
    """Return the milliseconds of CPU time per image, of all processes."""
    return 1000 * statistics.median(usage.cpu_seconds for usage in usages) / images


def measure(way: str, folder: str) -> Usage:
    """Return the time of one way."""
    import apache_beam.runners.portability.fn_api_runner  # noqa: F401

    import components.prepare_examples.prepare  # noqa: F401

    ways = {"ours": ours, "plain": plain}
    with tempfile.TemporaryDirectory(dir=folder) as output:
        started, cpu = time.perf_counter(), sum(os.times()[:4])
        ways[way](Path(folder), Path(output, "out"))
        return Usage(time.perf_counter() - started, sum(os.times()[:4]) - cpu)


def ours(folder: Path, output: Path) -> None:
    """Run the component as a pipeline does."""
    from components.prepare_examples.prepare import prepare
    from components.prepare_examples.settings.options import PrepareOptions

    options = PrepareOptions(files=(str(folder / "images"),))
    prepare(str(folder / "project"), output_dir=output, options=options)


def plain(folder: Path, output: Path) -> None:
    """Decode the images in a process per core."""
    del output
    files = [str(path) for path in sorted((folder / "images").rglob("*.png"))]
    cores = os.cpu_count() or 1
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        counts = pool.map(decode, [files[core::cores] for core in range(cores)])
    assert sum(counts) == len(files)


def decode(files: list[str]) -> int:
    """Return how many images were decoded and resized."""
    from PIL import Image

    found = []
    for file in files:
        with Image.open(file) as image:
            resized = image.convert("RGB").resize(SIZE, Image.Resampling.BILINEAR)
            found.append(resized.tobytes())
    return len(found)


def write_images(folder: Path, count: int) -> None:
    """Write PNGs of about 10 kB, of several sizes, to the folders of NUM_CLASSES classes."""
    from PIL import Image

    chance = np.random.default_rng(0)
    for number in range(NUM_CLASSES):
        (folder / f"class{number}").mkdir(parents=True)
    contents = []
    for _ in range(min(count, 200)):
        small = chance.integers(0, 256, (9, 12, 3), np.uint8)
        size = tuple(chance.integers(64, 128, 2).tolist())
        buffer = io.BytesIO()
        Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).save(buffer, "PNG")
        contents.append(buffer.getvalue())
    for number in range(count):
        path = folder / f"class{number % NUM_CLASSES}" / f"{number}.png"
        path.write_bytes(contents[number % len(contents)])


if __name__ == "__main__":
    main()
