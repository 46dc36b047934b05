"""The files of predictions and of errors of one part."""

import json
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from pipelines.predictions.inputs.batch import Batch
from trainer import Json
from trainer.errors import first_line

NUM_SHOWN = 3  # errors that a message names


class PredictionFiles:
    """Open files of a part; the file of errors is created with the first error.

    `specs` describe a prediction and give all parts the same schema in Parquet; without them it is
    inferred from the first batch.
    """

    def __init__(self, folder: Path, *, number: int, num_parts: int, kind: str, specs: Any = None):
        shard = f"{number:05d}-of-{num_parts:05d}"
        self._predictions = folder / f"predictions-{shard}.{kind}"
        self._errors = folder / f"errors-{shard}.jsonl"
        self._is_parquet = kind == "parquet"
        self._type = prediction_type(specs)
        self._file: IO[bytes] = self._predictions.open("wb")
        self._table: parquet.ParquetWriter | None = None
        self._error_file: IO[bytes] | None = None
        self.first_errors: list[Json] = []
        self.num_rows = self.num_errors = 0

    def __enter__(self) -> "PredictionFiles":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_parquet and self._table is None:  # a file without rows can be read, too
            self._open_table(self._type)
        for file in (self._table, self._file, self._error_file):
            if file is not None:
                file.close()

    def write(self, batch: Batch, predictions: list[Any]) -> None:
        """Write the predictions of a batch's rows, and its errors."""
        write = self._write_table if self._is_parquet else self._write_lines
        if predictions:
            write(batch, predictions)
        self.num_rows += len(predictions)
        for error in batch.errors:
            self._write_error({"file": batch.path, **error})

    def result(self) -> Json:
        """Return the entries of the files for the summary."""
        return {
            "file": self._predictions.name,
            "num_rows": self.num_rows,
            "num_errors": self.num_errors,
            "errors_file": self._errors.name if self.num_errors else "",
        }

    def _write_lines(self, batch: Batch, predictions: list[Any]) -> None:
        dumps, newline = orjson.dumps, orjson.OPT_APPEND_NEWLINE
        self._file.write(
            b"".join([dumps(row, option=newline) for row in _rows(batch, predictions)])
        )

    def _write_table(self, batch: Batch, predictions: list[Any]) -> None:
        rows = [
            {**row, "key": None if key is None else str(key)}
            for row, key in zip(_rows(batch, predictions), batch.keys, strict=True)
        ]
        try:
            table = self._table or self._open_table(self._type or pa.array(predictions).type)
            table.write_table(pa.Table.from_pylist(rows, schema=table.schema))
        except pa.ArrowException as error:
            raise DataError(
                f"{batch.path}: the predictions of rows {batch.rows[0]:,} to {batch.rows[-1]:,} do"
                f" not fit Parquet's columns ({first_line(error)}); write --format jsonl"
            ) from error

    def _open_table(self, prediction: pa.DataType | None) -> parquet.ParquetWriter:
        columns = [("file", pa.string()), ("row", pa.int64()), ("key", pa.string())]
        if prediction is not None:
            columns.append(("prediction", prediction))
        self._table = parquet.ParquetWriter(self._file, pa.schema(columns))
        return self._table

    def _write_error(self, error: Json) -> None:
        self.num_errors += 1
        if len(self.first_errors) < NUM_SHOWN:
            self.first_errors.append(error)
        if self._error_file is None:
            self._error_file = self._errors.open("wb")
        self._error_file.write(json.dumps(error).encode() + b"\n")


def prediction_type(specs: Any) -> pa.DataType | None:
    """Return the Arrow type of predictions with these `prediction_specs`; None: unknown."""
    if specs is None:
        return None
    if isinstance(specs, dict):
        types = {name: prediction_type(spec) for name, spec in specs.items()}
        return None if None in types.values() else pa.struct(list(types.items()))
    kinds = {"f": pa.float64(), "i": pa.int64(), "u": pa.int64(), "b": pa.bool_(), "O": pa.string()}
    arrow_type = kinds.get(np.dtype(specs.dtype.as_numpy_dtype).kind)
    if arrow_type is None or specs.shape.rank is None:
        return None
    for _ in range(specs.shape.rank - 1):  # the first dimension is the batch
        arrow_type = pa.list_(arrow_type)
    return arrow_type


def _rows(batch: Batch, predictions: list[Any]) -> list[Json]:
    """Return the content of each row of the output; `key` only if the input has one."""
    path = batch.path
    return [
        {"file": path, "row": row, "prediction": prediction}
        if key is None
        else {"file": path, "row": row, "key": key, "prediction": prediction}
        for row, key, prediction in zip(batch.rows, batch.keys, predictions, strict=True)
    ]
