"""Source of the tumours: a file of scikit-learn that begins with the number of rows.

Data: Wolberg, Mangasarian, Street and Street (1993), "Breast Cancer Wisconsin (Diagnostic)", UCI
Machine Learning Repository.
"""

from pathlib import Path

from trainer.workloads import Converted, PipWheel, Source, SourceFile

MEASURES = (
    *("radius", "texture", "perimeter", "area", "smoothness"),
    *("compactness", "concavity", "concave_points", "symmetry", "fractal_dimension"),
)
COLUMNS = tuple(f"{which}_{name}" for which in ("mean", "error", "worst") for name in MEASURES)


def write_table(raw: Path, made: Path) -> None:
    """Write tumours.csv, with a header instead of the first line."""
    _, *rows = (raw / "breast_cancer.csv").read_text().splitlines()
    header = ",".join((*COLUMNS, "benign"))
    (made / "tumours.csv").write_text("\n".join([header, *rows, ""]))


TUMOURS = Source(
    title="The breast cancer data of scikit-learn",
    files=(
        SourceFile(
            "tumours.csv",
            sha256="368a8f6d6833fbb38c3f33b8ed982fb6f4bd63714ff91de7218faf4a28d3f01a",
        ),
    ),
    routes=(
        Converted(
            PipWheel("scikit-learn==1.9.1", member="sklearn/datasets/data/breast_cancer.csv"),
            files=(
                SourceFile(
                    "breast_cancer.csv",
                    sha256="fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed",
                ),
            ),
            convert=write_table,
        ),
    ),
)
