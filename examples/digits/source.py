"""Source of the digits: a table of pixels of scikit-learn, written as an archive of PNGs.

Data: Alpaydin and Kaynak (1998), "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository.
"""

import gzip
import io
import zipfile
from pathlib import Path

from trainer.workloads import Converted, PipWheel, Source, SourceFile

SIDE = 8
BRIGHTEST = 16


def write_images(raw: Path, made: Path) -> None:
    """Write digits.zip with a PNG, digits/DIGIT/NUMBER.png, of each line: its pixels and digit."""
    from PIL import Image

    lines = gzip.decompress((raw / "digits.csv.gz").read_bytes()).decode().splitlines()
    with zipfile.ZipFile(made / "digits.zip", "w") as archive:
        for number, line in enumerate(lines):
            *pixels, digit = (int(value) for value in line.split(","))
            shades = bytes(value * 255 // BRIGHTEST for value in pixels)
            png = io.BytesIO()
            # Not compressed, and dated 1980: the same bytes with any zlib and at any time.
            Image.frombytes("L", (SIDE, SIDE), shades).save(png, "PNG", compress_level=0)
            archive.writestr(zipfile.ZipInfo(f"digits/{digit}/{number:04}.png"), png.getvalue())


DIGITS = Source(
    title="The digits of scikit-learn",
    files=(
        SourceFile(
            "digits.zip",
            sha256="365701cb333c99d9e7bc76a9a74d9a476b1504b31c8b98505cc1525c968c546b",
        ),
    ),
    routes=(
        Converted(
            PipWheel("scikit-learn==1.9.1", member="sklearn/datasets/data/digits.csv.gz"),
            files=(
                SourceFile(
                    "digits.csv.gz",
                    sha256="09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22",
                ),
            ),
            convert=write_images,
        ),
    ),
)
