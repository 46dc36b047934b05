"""Source of the diabetes data: two files of scikit-learn, with neither commas nor a header.

Data: Efron, Hastie, Johnstone and Tibshirani (2004), "Least Angle Regression".
"""

import gzip
from pathlib import Path

from trainer.workloads import Converted, PipWheel, Source, SourceFile

COLUMNS = "age,sex,bmi,pressure,cholesterol,ldl,hdl,ratio,ltg,glucose,progression"


def write_table(raw: Path, made: Path) -> None:
    """Write diabetes.csv, with a header and the result of each patient."""
    measured, results = (
        gzip.decompress((raw / f"diabetes_{part}.csv.gz").read_bytes()).decode().splitlines()
        for part in ("data_raw", "target")
    )
    rows = [
        f"{row.replace(' ', ',')},{float(result):g}"
        for row, result in zip(measured, results, strict=True)
    ]
    (made / "diabetes.csv").write_text("\n".join([COLUMNS, *rows, ""]))


DIABETES = Source(
    title="The diabetes data of scikit-learn",
    files=(
        SourceFile(
            "diabetes.csv",
            sha256="aac3d695c5de975dd67144ad3adf682521cdc9be585583943b43a867388ab40b",
        ),
    ),
    routes=(
        Converted(
            PipWheel("scikit-learn==1.9.1", member="sklearn/datasets/data"),
            files=(
                SourceFile(
                    "diabetes_data_raw.csv.gz",
                    sha256="7fc0ded571454b1982210d3bb43f0aca44eae01a0b8654a3b24022bdb6b38009",
                ),
                SourceFile(
                    "diabetes_target.csv.gz",
                    sha256="8e53f65eb811df43c206f3534bb3af0e5fed213bc37ed6ba36310157d6023803",
                ),
            ),
            convert=write_table,
        ),
    ),
)
