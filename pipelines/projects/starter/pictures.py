"""The pictures that a table names: the column of their names, guessed by its values."""

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.pictures import Pictures, find_table_files
from pipelines.projects.literals import quoted
from pipelines.projects.starter.column import FEATURE, KEY, TableColumn, rows_text
from trainer import Json
from trainer.workloads.encoding.decoding import Decoding
from trainer.workloads.encoding.image_files import (
    DAMAGES,
    decode_image,
    upright_size,
)
from trainer.workloads.encoding.images import as_png

MOST_MISSING = PrepareOptions().max_quarantine  # of the rows
MAX_OPENED = 300
LARGEST = 96  # pixels: images of one size up to it are not resized
DEFAULT_SIZE = (64, 64)
GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "F")


@dataclass(frozen=True)
class PictureShape:
    """Guess of the form of images, and what was seen in words."""

    form: Decoding
    seen: str


@dataclass(frozen=True)
class PictureColumn:
    """The column that names the pictures, in both of its roles: a feature, and the key.

    Attributes:
        files: the file of each name.
        notes: the guess, and what is left out.
    """

    column: TableColumn
    key: TableColumn
    files: Mapping[str, str]
    form: Decoding
    notes: Sequence[str]

    def instance(self, row: int) -> Json | None:
        """Return the picture of a row as a request has it; None if it is missing or damaged."""
        path = self.files.get(self.column.values[row].as_py())
        with contextlib.suppress(ValueError):  # it is damaged
            if path:
                pixels = decode_image(Path(path).read_bytes(), self.form)
                return {self.column.name: as_png(pixels.reshape(self.form.shape))}
        return None


def find_picture_column(
    columns: Sequence[TableColumn], folder: str, tables: Sequence[str]
) -> PictureColumn:
    """Return the column whose values are names of pictures in a folder, but for a few.

    Raises:
        DataError: there is none; names the column with the most.
    """
    pictures = find_table_files([*tables, folder], has_pictures=True).pictures
    assert pictures is not None
    best: TableColumn | None = None
    files, least = dict[str, str](), 0
    for column in columns:
        own = _files_of(column, pictures)
        num_named = sum(column.counts[name] for name in own)
        if num_named > least:
            best, files, least = column, own, num_named
    if best is None or least < (1 - MOST_MISSING) * len(best.texts):
        names = ", ".join(column.name for column in columns)
        near = ""
        if best:
            missing = _without_file(best, files)
            near = f"; {best.name} has most, but {missing} is none: add them, or remove such rows"
        raise DataError(
            f"no column of {tables[0]} has the names of the pictures in {folder}, such as"
            f" {Path(pictures.paths[0]).name}; its columns are {names}{near}"
        )
    shape = guess_shape([Path(path) for path in dict.fromkeys(files.values())])
    form = shape.form
    arguments: Json = {"size": form.size, "channels": form.channels}
    best.guess(FEATURE, "Image", arguments, seen=shape.seen)
    key = replace(best, role=KEY, kind="", seen="a row for each picture")
    return PictureColumn(best, key, files, form, [*_notes(best, files)])


def _notes(column: TableColumn, files: Mapping[str, str]) -> Iterator[str]:
    """Yield the guess, and the rows that are left out."""
    paths = [files[name] for name in column.present.to_pylist() if name in files]
    num_rows = len(column.texts)
    yield (
        f"{column.name}: the names of the pictures, since {len(paths):,} of {num_rows:,} values"
        f" are names of files; read as {column.declaration}: {column.seen}; change column"
        " or size in workload.py if that is wrong"
    )
    if num_missing := num_rows - len(paths):
        shown = f"{rows_text(num_missing)}, such as {_without_file(column, files)}"
        yield f"{column.name}: without a picture: {shown}; left out"
    if again := [path for path, count in Counter(paths).items() if count > 1]:
        yield (
            f"{column.name}: pictures with several rows: {len(again):,}, such as {again[0]};"
            " equal rows count once, and others are left out: correct the table, or write"
            f" group_by=[{quoted(column.declared)}] instead of key if a picture may have"
            " several rows"
        )


def _files_of(column: TableColumn, pictures: Pictures) -> dict[str, str]:
    files = {}
    for name in column.counts:
        with contextlib.suppress(LookupError):
            files[name] = pictures.find(name)
    return files


def _without_file(column: TableColumn, files: Mapping[str, str]) -> str:
    """Return the first name that is none of a file, with its row."""
    names = column.texts.to_pylist()
    at = next(at for at, name in enumerate(names) if name not in files)
    return f"{names[at]!r} in row {at + 1:,}"


def guess_shape(paths: Sequence[Path]) -> PictureShape:
    """Return the shape for images, guessed from the first ones: their own, if it is one and small.

    Raises:
        DataError: none can be read.
    """
    from PIL import Image

    sizes, modes, wrong = Counter[tuple[int, int]](), Counter[str](), []
    bomb = Image.DecompressionBombWarning
    for path in paths[:MAX_OPENED]:
        try:
            with warnings.catch_warnings(action="error", category=bomb), Image.open(path) as image:
                sizes[upright_size(image)] += 1
                modes[image.mode] += 1
        except (*DAMAGES, ValueError, bomb, Image.DecompressionBombError) as error:
            wrong.append(f"{path}: {error}")
    if not sizes:
        raise DataError(f"no image can be read: {wrong[0]}")
    [(most, count)] = sizes.most_common(1)
    is_same = count == sizes.total() and max(most) <= LARGEST
    shown = [f"{height}x{width}" for (height, width), _ in sizes.most_common(2)]
    more = ", …" * (len(sizes) > len(shown))
    seen = f"all are {shown[0]}" if is_same else f"files are {', '.join(shown)}{more}; resized"
    form = Decoding(
        size=most if is_same else DEFAULT_SIZE,
        channels=1 if set(modes) <= set(GREY) else 3,
    )
    counts = ", ".join(f"{mode} {number}" for mode, number in modes.most_common(3))
    return PictureShape(form, f"{seen}; {counts}")
