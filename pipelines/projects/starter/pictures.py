"""The pictures that a table names: the column of their names, guessed by its values."""

import contextlib
import itertools
import os
import shlex
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.picture_rows import PictureRows, unused_files
from components.prepare_examples.tables.pictures import Pictures, find_table_files, is_picture
from pipelines.projects.literals import quoted
from pipelines.projects.starter.columns import Contents, read_columns
from pipelines.projects.starter.texts import FEATURE, GROUP, KEY, Guess, Texts, rows_text
from trainer import Json
from trainer.workloads.declarations.decoding import Decoding
from trainer.workloads.encoding.image_files import (
    DAMAGES,
    decode_image,
    largest_value,
    upright_size,
    white_above,
)
from trainer.workloads.encoding.images import as_png

LEAST_SHARE = 0.5  # of a column's values that are names of pictures
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".csv.gz")
MAX_OPENED = 300
LARGEST = 96  # pixels: images of one size up to it are not resized
DEFAULT_SIZE = (64, 64)
GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "F")


@dataclass(frozen=True)
class Shape:
    """Guess of the form of images, and what was seen in words."""

    form: Decoding
    sizes: str
    modes: str
    largest: float
    """The largest value in grey images with more than 8 bits."""
    wrong: Sequence[str]
    """The files that cannot be read, with reasons."""

    def notes(self) -> Iterator[str]:
        """Yield the guess of which value is white, and the files that were not looked at."""
        if self.wrong:
            yield f"{len(self.wrong)} of the pictures cannot be read, such as {self.wrong[0]}"
        if self.form.white:
            yield (
                f"values in grey pictures of more than 8 bits reach {self.largest:g}, so white is"
                f" {self.form.white:g}; change white in workload.py if that is wrong"
            )


@dataclass(frozen=True)
class PictureColumn:
    """The column that names the pictures.

    Attributes:
        paths: the picture of each row, None for a row without one.
        num_contradicting: rows whose picture another row has with other values.
        num_repeated: rows that repeat another row.
    """

    column: Texts
    pictures: Pictures
    paths: Sequence[str | None]
    num_contradicting: int
    num_repeated: int
    shape: Shape

    @cached_property
    def guesses(self) -> list[Guess]:
        """The column as a feature, and as what decides the split."""
        shape = self.shape
        num_named = len(self.paths) - self.paths.count(None)
        arguments: Json = {"size": shape.form.size, "channels": shape.form.channels}
        arguments |= {"white": shape.form.white} if shape.form.white else {}
        seen = f"{shape.sizes}; {shape.modes}"
        role, why = KEY, "a row for each picture"
        if self.num_contradicting > _most_bad(len(self.paths)):
            role, why = GROUP, f"{self.num_contradicting:,} of {num_named:,} rows share pictures"
        image = Guess(self.column, FEATURE, "Image", arguments, seen)
        return [image, Guess(self.column, role, seen=why)]

    def notes(self) -> Iterator[str]:
        """Yield the guess, and what is left out."""
        num_rows, num_missing = len(self.paths), self.paths.count(None)
        name = self.column.name
        yield (
            f"{name}: the names of the pictures, since {num_rows - num_missing:,} of"
            f" {num_rows:,} values are names of files; read as {self.guesses[0].declaration}:"
            f" {self.shape.sizes}; change column or size in workload.py if that is wrong"
        )
        yield from self.shape.notes()
        if num_missing:
            value, row = self._first_missing
            yield (
                f"{name}: without a picture: {rows_text(num_missing)}, such as {value!r} in row"
                f" {row:,}; left out"
            )
        if self.num_repeated:
            yield f"{name}: equal rows of a picture count once: {self.num_repeated:,} left out"
        if self.guesses[1].role == KEY and self.num_contradicting:
            yield (
                f"{name}: {self.num_contradicting:,} rows have a picture that another row has with"
                " other values; they are left out: correct the table, or write"
                f" group_by=[{quoted(self.guesses[0].name)}] instead of key if a picture may have"
                " several rows"
            )
        if self.guesses[1].role == GROUP:
            yield f"{name}: {self.guesses[1].seen}; all rows of a picture are in the same split"
        named = {path for path in self.paths if path}
        yield from PictureRows(unused=unused_files(self.pictures, named)).words()

    @property
    def _first_missing(self) -> tuple[str | None, int]:
        at = self.paths.index(None)
        return self.column.values[at].as_py(), at + 1

    def instances(self) -> Iterator[tuple[int, Json]]:
        """Yield the rows with a picture, and the picture as a request has it."""
        form = self.shape.form
        for row, path in enumerate(self.paths):
            with contextlib.suppress(ValueError):  # it is damaged
                if path:
                    pixels = decode_image(Path(path).read_bytes(), form)
                    yield row, {self.column.name: as_png(pixels.reshape(form.shape))}


def find_picture_column(
    contents: Contents, label: str, folder: str, tables: Sequence[str]
) -> PictureColumn:
    """Return the column of which most values are names of pictures in a folder.

    Raises:
        DataError: there is none, or too many rows name no picture.
    """
    files = find_table_files([*tables, folder], has_pictures=True)
    assert files.pictures is not None
    pictures = files.pictures
    columns = [column for column in contents.columns if column.name != label]
    paths = {column.name: _paths_of(column, pictures) for column in columns}
    best = min(columns, key=lambda column: paths[column.name].count(None), default=None)
    num_rows = contents.num_rows
    num_missing = paths[best.name].count(None) if best else num_rows
    if best is None or num_missing > LEAST_SHARE * num_rows:
        shown = ", ".join(
            f"{column.name} (such as {column.present[0].as_py()!r})"
            for column in columns
            if len(column.present)
        )
        raise DataError(
            f"no column of {tables[0]} has the names of the pictures in {folder}, such as"
            f" {Path(pictures.paths[0]).name}; its columns are {shown or label}"
        )
    pictures_of_rows = paths[best.name]
    if num_missing > _most_bad(num_rows):
        at = pictures_of_rows.index(None)
        raise DataError(
            f"{num_missing:,} of {num_rows:,} rows of {tables[0]} name no picture in {folder}, such"
            f" as {best.values[at].as_py()!r} in row {at + 1:,}; add the pictures, or remove these"
            " rows"
        )
    repeated, contradicting = _alike(contents, best, pictures_of_rows)
    shape = guess_shape([Path(path) for path in dict.fromkeys(pictures_of_rows) if path])
    return PictureColumn(best, pictures, pictures_of_rows, contradicting, repeated, shape)


def _most_bad(num_rows: int) -> float:
    return PrepareOptions().max_quarantine * num_rows


def _paths_of(column: Texts, pictures: Pictures) -> list[str | None]:
    by_name: dict[str | None, str | None] = {None: None}
    for name in column.present.unique().to_pylist():
        try:
            by_name[name] = pictures.find(name)
        except LookupError:
            by_name[name] = None
    return [by_name[name] for name in column.values.to_pylist()]


def _alike(contents: Contents, column: Texts, paths: Sequence[str | None]) -> tuple[int, int]:
    """Return the number of rows that repeat another one, and of those that contradict one."""
    values = [other.values.to_pylist() for other in contents.columns if other.name != column.name]
    rows: Mapping[str, Counter[tuple[str | None, ...]]] = defaultdict(Counter)
    for at, path in enumerate(paths):
        if path is not None:
            rows[path][tuple(column_values[at] for column_values in values)] += 1
    repeated = sum(counts.total() - 1 for counts in rows.values() if len(counts) == 1)
    return repeated, sum(counts.total() for counts in rows.values() if len(counts) > 1)


def table_hint(folder: str) -> str:
    """Return the command for a flat folder of pictures with a table of labels, or ""."""
    root = Path(folder)
    if not root.is_dir() or not any(map(is_picture, map(str, root.iterdir()))):
        return ""
    beside = sorted(
        path
        for parent in (root, root.resolve().parent)
        for path in parent.iterdir()
        if path.name.lower().endswith(TABLES)
    )
    for path in beside:
        try:
            contents = read_columns([str(path)])
            named = find_picture_column(contents, "", folder, [str(path)])
        except (DataError, OSError):
            continue
        labels = [name for name in contents.names if name != named.column.name]
        one_of = f"COLUMN, one of {', '.join(labels)}"
        shown = shlex.quote(labels[0]) if len(labels) == 1 else one_of
        table = os.path.relpath(path)
        options = shlex.join(["--images", folder, "--table", table])
        return (
            f"; or, since {table} has their names in the column {named.column.name!r}, type:"
            f" trainyard new NAME {options} --label {shown}"
        )
    return "; or give the file with their labels: --table labels.csv --label COLUMN"


def guess_shape(paths: Sequence[Path]) -> Shape:
    """Return the shape for images, guessed from the first ones: their own, if it is one and small.

    Raises:
        DataError: none can be read.
    """
    from PIL import Image

    sizes, modes, wrong = Counter[tuple[int, int]](), Counter[str](), []
    largest = 0.0
    bomb = Image.DecompressionBombWarning
    for path in paths[:MAX_OPENED]:
        try:
            with warnings.catch_warnings(action="error", category=bomb), Image.open(path) as image:
                largest = max(largest, largest_value(image))
                sizes[upright_size(image)] += 1
                modes[image.mode] += 1
        except (*DAMAGES, ValueError, bomb, Image.DecompressionBombError) as error:
            wrong.append(f"{path}: {error}")
    if not sizes:
        raise DataError(f"no image can be read: {wrong[0]}")
    [(most, count)] = sizes.most_common(1)
    is_same = count == sizes.total() and max(most) <= LARGEST
    form = Decoding(
        size=most if is_same else DEFAULT_SIZE,
        channels=1 if set(modes) <= set(GREY) else 3,
        white=white_above(largest) if largest else None,
    )
    return Shape(
        form=form,
        sizes=_sizes_in_words(sizes, is_same=is_same),
        modes=", ".join(f"{mode} {number}" for mode, number in modes.most_common(3)),
        largest=largest,
        wrong=wrong,
    )


def _sizes_in_words(sizes: Counter[tuple[int, int]], *, is_same: bool) -> str:
    shown = itertools.islice(sizes.most_common(), 2)
    texts = [f"{height}x{width}" for (height, width), _ in shown]
    if is_same:
        return f"all are {texts[0]}"
    return f"files are {', '.join(texts)}{', …' if len(sizes) > len(texts) else ''}; resized"
