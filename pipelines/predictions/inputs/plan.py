"""Kinds of the input files, and their division into parts."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.columns import match_header
from components.prepare_examples.tables.pictures import find_table_files, is_picture
from components.prepare_examples.tables.reading import kinds
from components.prepare_examples.tables.reading.typed import json_rows
from pipelines.predictions.inputs.tables import (
    missing_columns,
    plan_tables,
    schema_for_predictions,
)
from pipelines.predictions.options import PredictOptions
from trainer import Json
from trainer.workloads.image_folder import ImageFolder
from trainer.workloads.table import Table

LINES, RECORDS, TABLES, PICTURES = "JSON lines", "TFRecords", "tables", "pictures"
PART_PICTURES, PART_BYTES = 1_000, 64_000_000
LINE_ENDINGS = (".jsonl", ".ndjson", ".json")
KINDS = {
    kinds.RECORDS: RECORDS,
    kinds.LINES: LINES,
    **dict.fromkeys((kinds.ARRAY, kinds.OBJECT, kinds.PARQUET, kinds.TEXT), TABLES),
}


def without_pictures(paths: Sequence[str], predictor: Any, patterns: Sequence[str]) -> list[str]:
    """Return the files without the pictures that the rows of tables name.

    Raises:
        DataError: there is no other file.
    """
    workload = getattr(predictor, "workload", None)
    has_pictures = isinstance(workload, Table) and bool(schema_for_predictions(workload).images)
    if not has_pictures or not any(map(is_picture, paths)):
        return list(paths)
    return list(find_table_files(patterns, has_pictures=True).tables)


def plan_parts(
    paths: Sequence[str], predictor: Any, options: PredictOptions
) -> tuple[list[Json], list[str]]:
    """Return the numbered parts of files, and the names of the columns that are not read.

    Raises:
        DataError: the model cannot read a kind of files, or a table lacks a column.
    """
    by_kind: dict[str, list[str]] = {}
    for path in paths:
        kind = kind_of(path)
        if kind == LINES and _are_rows(path, predictor):
            kind = TABLES
        by_kind.setdefault(kind, []).append(path)
    if PICTURES in by_kind and isinstance(getattr(predictor, "workload", None), ImageFolder):
        by_kind[PICTURES] += by_kind.pop(TABLES, [])  # errors, as in preparing class folders
    parts: list[Json] = []
    unused: list[str] = []
    cut: list[Json]
    for kind, files in by_kind.items():
        if kind in (LINES, RECORDS):
            if kind == RECORDS:
                _check_records(files, predictor)
            cut = [{"path": path} for path in files]
        elif kind == PICTURES:
            _check_pictures(files, predictor)
            starts = range(0, len(files), PART_PICTURES)
            cut = [{"paths": files[at : at + PART_PICTURES]} for at in starts]
        else:
            table = _table_of(files, predictor)
            schema = schema_for_predictions(table, time_zone=options.time_zone)
            size = math.ceil(sum(Path(path).stat().st_size for path in files) / PART_BYTES)
            label = table.label.column
            cut, unused = plan_tables(files, schema, num_parts=max(1, size), label=label)
        parts += [{**part, "kind": kind} for part in cut]
    return [{**part, "number": number} for number, part in enumerate(parts)], unused


def kind_of(path: str) -> str:
    """Return the kind of a file by its first bytes; of one that is empty, by its name.

    Raises:
        DataError: the file is of a kind that cannot be read; names it and what to do.
    """
    if is_picture(path):
        return PICTURES
    ending = Path(path.removesuffix(".gz")).suffix.lower()
    if Path(path).stat().st_size:
        kind = kinds.file_kind(path)
        # An instance of a model of another program need be no object.
        is_line = kind == kinds.TEXT and ending in LINE_ENDINGS
        return LINES if is_line else KINDS[kind]
    if ending in LINE_ENDINGS:
        return LINES
    return RECORDS if ending.startswith(".tfrecord") else TABLES


def _are_rows(path: str, predictor: Any) -> bool:
    """Return whether lines are rows of a table: they have all its columns, and other ones.

    No request has other columns than the features, and the key by that name.
    """
    workload = getattr(predictor, "workload", None)
    if not isinstance(workload, Table):
        return False
    try:
        names = list(next(json_rows(path), {}))
    except DataError:  # which the row will have, too
        return False
    schema = schema_for_predictions(workload)
    header = match_header(names, schema)
    has_more = not {*header.columns} <= {*workload.feature_names, "key"}
    return has_more and not missing_columns(header, schema)


def _check_records(paths: Sequence[str], predictor: Any) -> None:
    if not hasattr(predictor, "workload"):
        raise DataError(
            f"{paths[0]}: the model was exported by another program, so only JSON lines of its"
            " instances can be predicted"
        )


def _check_pictures(paths: Sequence[str], predictor: Any) -> None:
    _check_records(paths, predictor)
    if not isinstance(predictor.workload, ImageFolder):
        names = ", ".join(predictor.workload.input_specs())
        raise DataError(
            f"{paths[0]} is a picture, but {predictor.workload.name} predicts from {names}; give a"
            " table or JSON lines of these"
        )


def _table_of(paths: Sequence[str], predictor: Any) -> Table:
    _check_records(paths, predictor)
    if not isinstance(predictor.workload, Table):
        raise DataError(
            f"{paths[0]} is a table, but {predictor.workload.name} has no columns; give JSON lines"
            " of its instances, TFRecords or, for a model of images, the pictures"
        )
    return predictor.workload
