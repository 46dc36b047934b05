"""Source of the wine data: a file of scikit-learn that begins with the number of rows.

Data: Aeberhard and Forina (1991), "Wine", UCI Machine Learning Repository.
"""

from pathlib import Path

from trainer.workloads import Converted, PipWheel, Source, SourceFile

COLUMNS = (
    *("alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols"),
    *("flavanoids", "nonflavanoid_phenols", "proanthocyanins", "colour_intensity", "hue"),
    *("od280_od315_of_diluted_wines", "proline"),
)


def write_table(raw: Path, made: Path) -> None:
    """Write wine.csv, with a header instead of the first line."""
    _, *rows = (raw / "wine_data.csv").read_text().splitlines()
    header = ",".join((*COLUMNS, "cultivar"))
    (made / "wine.csv").write_text("\n".join([header, *rows, ""]))


WINE = Source(
    title="The wine data of scikit-learn",
    files=(
        SourceFile(
            "wine.csv",
            sha256="b0408f99e5c32459222e4aff9ff24541787070b7b1ab38641e128887abeeda67",
        ),
    ),
    routes=(
        Converted(
            PipWheel("scikit-learn==1.9.1", member="sklearn/datasets/data/wine_data.csv"),
            files=(
                SourceFile(
                    "wine_data.csv",
                    sha256="10e8a802908b34f86e5da8ce962f3c806694bc98450a18f61851af59f324bede",
                ),
            ),
            convert=write_table,
        ),
    ),
)
