"""The pictures that a table names: the column of their names, guessed by its values."""

import contextlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.picture_rows import PictureRows, unused_files
from components.prepare_examples.tables.pictures import Pictures, find_table_files
from pipelines.projects.literals import quoted
from pipelines.projects.starter.columns import Contents
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
MAX_OPENED = 300
LARGEST = 96  # pixels: images of one size up to it are not resized
DEFAULT_SIZE = (64, 64)
GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "F")


@dataclass(frozen=True)
class Shape:
    """Guess of the form of images, and what was seen in words.

    Attributes:
        largest: the largest value in grey images with more than 8 bits.
        wrong: the files that cannot be read, with reasons.
    """

    form: Decoding
    seen: str
    largest: float
    wrong: Sequence[str]

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
    """

    column: Texts
    pictures: Pictures
    paths: Sequence[str | None]
    num_contradicting: int
    shape: Shape

    @cached_property
    def guesses(self) -> list[Guess]:
        """The column as a feature, and as what decides the split."""
        form = self.shape.form
        arguments: Json = {"size": form.size, "channels": form.channels}
        arguments |= {"white": form.white} if form.white else {}
        image = Guess(self.column, FEATURE, "Image", arguments, self.shape.seen)
        if self.num_contradicting <= _most_bad(len(self.paths)):
            return [image, Guess(self.column, KEY, seen="a row for each picture")]
        seen = f"{self.num_contradicting:,} of {len(self.paths):,} rows share pictures"
        return [image, Guess(self.column, GROUP, seen=seen)]

    def notes(self) -> Iterator[str]:
        """Yield the guess, and what is left out."""
        num_rows, num_missing = len(self.paths), self.paths.count(None)
        name = self.column.name
        yield (
            f"{name}: the names of the pictures, since {num_rows - num_missing:,} of"
            f" {num_rows:,} values are names of files; read as {self.guesses[0].declaration}:"
            f" {self.shape.seen}; change column or size in workload.py if that is wrong"
        )
        yield from self.shape.notes()
        if num_missing:
            shown = f"{rows_text(num_missing)}, such as {self.missing}"
            yield f"{name}: without a picture: {shown}; left out"
        if self.guesses[1].role == GROUP:
            yield f"{name}: {self.guesses[1].seen}; all rows of a picture are in the same split"
        elif self.num_contradicting:
            yield (
                f"{name}: {self.num_contradicting:,} rows have a picture that another row has with"
                " other values; they are left out: correct the table, or write"
                f" group_by=[{quoted(self.guesses[0].name)}] instead of key if a picture may have"
                " several rows"
            )
        named = {path for path in self.paths if path}
        yield from PictureRows(unused=unused_files(self.pictures, named)).words()

    @property
    def missing(self) -> str:
        """The first row without a picture."""
        at = self.paths.index(None)
        return f"{self.column.values[at].as_py()!r} in row {at + 1:,}"

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
    pictures = find_table_files([*tables, folder], has_pictures=True).pictures
    assert pictures is not None
    columns = [column for column in contents.columns if column.name != label]
    paths = {column.name: _paths_of(column, pictures) for column in columns}
    best = min(columns, key=lambda column: paths[column.name].count(None), default=None)
    if best is None or paths[best.name].count(None) > LEAST_SHARE * contents.num_rows:
        shown = [f"{own.name} (such as {own.ranked[0][0]!r})" for own in columns if own.ranked]
        raise DataError(
            f"no column of {tables[0]} has the names of the pictures in {folder}, such as"
            f" {Path(pictures.paths[0]).name}; its columns are {', '.join(shown) or label}"
        )
    own = paths[best.name]
    shape = guess_shape([Path(path) for path in dict.fromkeys(own) if path])
    picture = PictureColumn(best, pictures, own, _num_contradicting(contents, best, own), shape)
    if own.count(None) > _most_bad(contents.num_rows):
        raise DataError(
            f"{own.count(None):,} of {contents.num_rows:,} rows of {tables[0]} name no picture in"
            f" {folder}, such as {picture.missing}; add the pictures, or remove these rows"
        )
    return picture


def _most_bad(num_rows: int) -> float:
    return PrepareOptions().max_quarantine * num_rows


def _paths_of(column: Texts, pictures: Pictures) -> list[str | None]:
    by_name: dict[str | None, str | None] = {None: None}
    for name in column.present.unique().to_pylist():
        with contextlib.suppress(LookupError):
            by_name[name] = pictures.find(name)
    return [by_name.get(name) for name in column.values.to_pylist()]


def _num_contradicting(contents: Contents, column: Texts, paths: Sequence[str | None]) -> int:
    """Return the number of rows with a picture that another row has with other values."""
    others = [other.values.to_pylist() for other in contents.columns if other is not column]
    rows: Mapping[str | None, list[tuple[str | None, ...]]] = defaultdict(list)
    for path, values in zip(paths, zip(*others, strict=True), strict=True):
        rows[path].append(values)
    return sum(len(same) for path, same in rows.items() if path and len({*same}) > 1)


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
    shown = [f"{height}x{width}" for (height, width), _ in sizes.most_common(2)]
    more = ", …" * (len(sizes) > len(shown))
    seen = f"all are {shown[0]}" if is_same else f"files are {', '.join(shown)}{more}; resized"
    form = Decoding(
        size=most if is_same else DEFAULT_SIZE,
        channels=1 if set(modes) <= set(GREY) else 3,
        white=white_above(largest) if largest else None,
    )
    counts = ", ".join(f"{mode} {number}" for mode, number in modes.most_common(3))
    return Shape(form, f"{seen}; {counts}", largest, wrong)
