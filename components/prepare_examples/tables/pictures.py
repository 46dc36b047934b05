"""The pictures of a table: files in folders beside it, named by one of its columns."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

import pyarrow as pa

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import find_files
from components.prepare_examples.tables.rows import Block
from components.prepare_examples.tables.table_schema import TableSchema
from trainer.workloads.encoding.image_files import SUFFIXES, decode_image

BLOCK_BYTES = 32 << 20  # of pixels that are in memory at once
NUM_SHOWN = 2


@dataclass(frozen=True)
class Pictures:
    """The image files of a run; `others` are files in the same folders that are no images."""

    paths: tuple[str, ...]
    others: tuple[str, ...] = ()

    def find(self, value: str) -> str:
        """Return the file of a name in a table: with or without the suffix, or folders in front.

        Raises:
            LookupError: there is no such file, or several; says which.
        """
        named = PurePosixPath(value.strip().replace("\\", "/"))
        alike = self._by_name.get(_plain(named), []) or self._by_stem.get(named.name, [])
        fitting = [path for path in alike if _is_in(path, named.parent)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            shown = " and ".join(fitting[:NUM_SHOWN])
            raise LookupError(
                f"{value!r} is the name of {len(fitting)} pictures, such as {shown}; write the"
                " folder or the suffix, too"
            )
        near = f"; {alike[0]} is in another folder" if alike else ""
        raise LookupError(f"{value!r} is the name of no picture{near}")

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        return _grouped(self.paths, _plain)

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        return _grouped(self.paths, lambda path: path.stem)


def _grouped(paths: Iterable[str], name: Callable[[PurePosixPath], str]) -> dict[str, list[str]]:
    groups = defaultdict(list)
    for path in paths:
        groups[name(PurePosixPath(path))].append(path)
    return groups


def _plain(path: PurePosixPath) -> str:
    return f"{path.stem}{path.suffix.lower()}"


def _is_in(path: str, folder: PurePosixPath) -> bool:
    ending = folder.parts[1:] if folder.is_absolute() else folder.parts
    return not ending or PurePosixPath(path).parent.parts[-len(ending) :] == ending


def is_picture(path: str) -> bool:
    """Return whether a file has the suffix of an image."""
    return Path(path).suffix.lower() in SUFFIXES


@dataclass(frozen=True)
class TableFiles:
    """The files of a run: the table, and its pictures if it has any."""

    tables: tuple[str, ...]
    pictures: Pictures | None = None


def find_table_files(patterns: Sequence[str], *, has_pictures: bool) -> TableFiles:
    """Return the files that the patterns match; folders with images hold the pictures.

    Raises:
        DataError: a pattern matches nothing, or there is no table, or no picture.
    """
    if not has_pictures:
        return TableFiles(tuple(find_files(patterns)))
    tables: list[str] = []
    pictures: list[str] = []
    others: list[str] = []
    for pattern in patterns:
        files = find_files([pattern])
        images = list(filter(is_picture, files))
        pictures += images
        rest = [path for path in files if not is_picture(path)]
        (others if images else tables).extend(rest)
    if not tables or not pictures:
        lacking = "a table" if pictures else "pictures"
        raise DataError(
            f"files is {', '.join(patterns)}, without {lacking}; give the table and the folder of"
            " its pictures, as files: [labels.csv, photos]"
        )
    rest = [path for path in others if path not in tables]
    return TableFiles(
        tuple(sorted(set(tables))), Pictures(tuple(sorted(set(pictures))), tuple(rest))
    )


def rows_at_once(schema: TableSchema) -> int:
    """Return how many rows are read at once, because of their pixels."""
    num_bytes = sum(column.num_pixels for column in schema.images)
    return max(BLOCK_BYTES // max(num_bytes, 1), 1)


def load_pictures(block: Block, schema: TableSchema, pictures: Pictures) -> Block:
    """Return a block with the pixels and the digest of each picture; others make a row bad."""
    table = block.table
    for column in schema.images:
        pixels: list[bytes | None] = [None] * table.num_rows
        digests: list[str | None] = [None] * table.num_rows
        for row, name in enumerate(table[column.name].to_pylist()):
            if row in block.bad.reasons:
                continue
            try:
                data = Path(pictures.find(name)).read_bytes()
                image = decode_image(data, column)
            except LookupError as error:
                block.bad.put(row, column.name, str(error.args[0]))
            except (ValueError, OSError) as error:
                block.bad.put(row, column.name, f"{name!r}: {error}")
            else:
                pixels[row], digests[row] = image.tobytes(), hashlib.sha256(data).hexdigest()
        for name, values in (
            (schema.values_of(column.name), pa.array(pixels, pa.binary())),
            (schema.key_of(column.name), pa.array(digests, pa.string())),
        ):
            table = table.append_column(name, values)
    return replace(block, table=table)
