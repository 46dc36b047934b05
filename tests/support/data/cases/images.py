"""Pictures with a table of labels that people have."""

from pathlib import Path

import numpy as np
import PIL.Image

from tests.support.data.cases.case import Case

NUM_PICTURES = 120


def write_pictures(folder: Path) -> None:
    """Write 120 pictures, and a table with 118 of them, three that lack, and one twice."""
    for number in range(1, NUM_PICTURES + 1):
        path = folder / "img" / "ab"[number % 2] / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((24, 20, 3), (200 if number % 3 else 40, number, 90), np.uint8)
        PIL.Image.fromarray(pixels).save(path)
    rows = [(number, "pug" if number % 3 else "collie") for number in range(1, 119)]
    rows += [(500, "pug"), (501, "pug"), (502, "collie"), (7, "collie")]
    lines = [f"{number:04d},{breed},{number % 9}" for number, breed in rows]
    (folder / "labels.csv").write_text("\n".join(["id,breed,age", *lines, ""]))


CASES = {
    "images": Case(
        write_pictures,
        "--images img --table labels.csv --label breed",
        says=(
            "the names of the pictures, since 119 of 122 values are names of files",
            "without a picture: 3 rows, such as '0500' in row 119",
            "pictures with several rows: 1, such as .*0007.png",
        ),
        checked="5 quarantined.*2 files are named by no row",
        facts=lambda result: (
            result.rows["read"] == 122
            and result.rows["quarantined"] == 5
            and sum(result.counts) == 117
        ),
    )
}
