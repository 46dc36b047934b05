"""Prediction of files: their rows are predicted in parts, which are published together."""

import json
import logging
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.publish import check_replaceable, local_path, published
from components.prepare_examples.raw_data.files import find_files
from components.prepare_examples.tables.reading.encodings import explained
from pipelines.predictions.inputs.batch import Batch
from pipelines.predictions.inputs.lines import read_lines, read_pictures
from pipelines.predictions.inputs.plan import (
    LINES,
    PICTURES,
    TABLES,
    plan_parts,
    without_pictures,
)
from pipelines.predictions.inputs.records import read_records
from pipelines.predictions.inputs.tables import read_table
from pipelines.predictions.options import PredictOptions
from pipelines.predictions.output import NUM_SHOWN, PredictionFiles
from pipelines.predictions.unknown_values import UnknownValues
from trainer import Json, paths
from trainer.config.trust import STRANGER, Trust
from trainer.errors import InstanceError, TrainerError
from trainer.runtime.cores import machine_cores
from trainer.runtime.tensorflow_logs import import_tensorflow

SUMMARY = "summary.json"
OWN_FILE = re.compile(
    r"predictions-\d{5}-of-\d{5}\.(jsonl|parquet)|errors-\d{5}-of-\d{5}\.jsonl"
    rf"|{re.escape(SUMMARY)}"
)
LINE_SECONDS = 5.0
logger = logging.getLogger(__name__)


def predict_files(
    model_uri: str,
    *,
    inputs: Sequence[str],
    output_dir: str | Path,
    options: PredictOptions | None = None,
    trust: Trust = STRANGER,
) -> Json:
    """Write a model's predictions for all rows of files; return the summary.

    `output_dir` appears complete or not at all; after a kill, start the prediction again.

    Args:
        model_uri: the folder of a SavedModel, a path or gs://.
        inputs: paths or patterns of files: JSON lines of instances, CSV, Parquet or TFRecords.
        output_dir: the folder to create; earlier predictions in it are replaced.
        options: all other settings.
        trust: in the model's author.

    Returns:
        `model`, `workload`, `files`, `rows`, `predictions`, `errors`, `seconds`,
        `rows_per_second`, `unused_columns`, `unknown_values` (of categories, by column) and
        `shards`, the entries of the files.

    Raises:
        DataError: a file or the model is unusable, or too many rows have no prediction.
    """
    options = options or PredictOptions()
    output = local_path(output_dir)
    check_replaceable(output, own=OWN_FILE, content="a batch prediction")
    patterns = [str(local_path(pattern)) for pattern in inputs]
    files = find_files(patterns)
    model_uri = paths.opened(model_uri).rstrip("/")
    predictor = load_model(model_uri, trust)
    files = without_pictures(files, predictor, patterns)
    parts, unused = plan_parts(files, predictor, options)
    if not parts:
        raise DataError(f"{', '.join(inputs)}: the files have no rows")
    unknown = UnknownValues(getattr(predictor, "workload", None))
    progress = RowRate(sum(Path(path).stat().st_size for path in files))

    def predict(part: Json) -> PredictionFiles:
        with PredictionFiles(
            folder,
            number=part["number"],
            num_parts=len(parts),
            kind=options.format,
            specs=predictor.prediction_specs(),
        ) as shard:
            if part["kind"] == TABLES:
                zone = options.time_zone
                batches = read_table(part, predictor, time_zone=zone, patterns=patterns)
            else:
                batches = READERS.get(part["kind"], read_records)(part, predictor)
            for batch in batches:
                unknown.count(batch)
                shard.write(*_predicted(batch, predictor))
                progress.advance(batch.num_read)
        return shard

    with published(output, last=SUMMARY) as folder, ThreadPoolExecutor(machine_cores()) as pool:
        shards = list(pool.map(predict, parts))
        check_errors(shards, max_errors=options.max_errors)
        predictions = sum(shard.num_rows for shard in shards)
        errors = sum(shard.num_errors for shard in shards)
        seconds = progress.seconds
        summary = {
            "model": model_uri,
            "workload": getattr(getattr(predictor, "workload", None), "name", ""),
            "files": len(files),
            "unused_columns": unused,
            "unknown_values": unknown.by_column,
            "rows": predictions + errors,
            "predictions": predictions,
            "errors": errors,
            "seconds": round(seconds, 3),
            "rows_per_second": round((predictions + errors) / seconds, 1),
            "shards": [shard.result() for shard in shards],
        }
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


READERS: dict[str, Any] = {LINES: read_lines, PICTURES: read_pictures}


def load_model(model_uri: str, trust: Trust = STRANGER) -> Any:
    """Return the predictor of a model.

    Raises:
        DataError: it cannot be loaded, or needs more trust.
    """
    import_tensorflow()
    from trainer.serving.signature import load_any

    try:
        return load_any(model_uri, trust=trust)
    except TrainerError as error:
        raise DataError(str(error)) from error


def describe(summary: Json) -> str:
    """Return the summary in one line."""
    errors = f", {summary['errors']:,} without a prediction" if summary["errors"] else ""
    return (
        f"{summary['predictions']:,} predictions{errors}, {summary['seconds']:.1f} s"
        f" ({summary['rows_per_second']:,.0f} rows/s)"
    )


class RowRate:
    """Log of the number of rows and their rate; `num_bytes` is the input's size."""

    def __init__(self, num_bytes: int) -> None:
        self._num_bytes = num_bytes
        self._began = self._last = time.monotonic()
        self._num_rows = 0

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def advance(self, num_rows: int) -> None:
        """Count further rows as done."""
        self._num_rows += num_rows
        if time.monotonic() - self._last > LINE_SECONDS:
            self._last = time.monotonic()
            logger.info(
                "predicting %.1f MB: %s rows, %s rows/s",
                self._num_bytes / 1e6,
                f"{self._num_rows:,}",
                f"{self._num_rows / self.seconds:,.0f}",
            )


def _predicted(batch: Batch, predictor: Any) -> tuple[Batch, list[Any]]:
    if not batch.rows:
        return batch, []
    if batch.features is None:
        return _of_instances(batch, predictor)
    batch, outputs = _without_not_finite(batch, predictor.predict_batch(batch.features))
    return batch, predictor.predictions_of(outputs)


def _without_not_finite(
    batch: Batch, outputs: dict[str, np.ndarray]
) -> tuple[Batch, dict[str, np.ndarray]]:
    """Return a batch whose rows with predictions that are not finite are errors, and the others."""
    from trainer.serving.rows import find_not_finite

    reasons = dict(find_not_finite(outputs))
    if not reasons:
        return batch, outputs
    kept = [index for index in range(len(batch.rows)) if index not in reasons]
    errors = [{"row": batch.rows[index], "reason": reason} for index, reason in reasons.items()]
    batch = replace(
        batch,
        rows=[batch.rows[index] for index in kept],
        keys=[batch.keys[index] for index in kept],
        errors=[*batch.errors, *errors],
    )
    return batch, {name: output[kept] for name, output in outputs.items()}


def _of_instances(batch: Batch, predictor: Any) -> tuple[Batch, list[Any]]:
    """Predict instances for a model of another program, one by one if it rejects them together."""
    try:
        return batch, predictor.predict(batch.instances)
    except InstanceError:
        pass
    rows, keys, predictions, errors = [], [], [], list(batch.errors)
    for row, key, instance in zip(batch.rows, batch.keys, batch.instances, strict=True):
        try:
            predictions += predictor.predict([instance])
            rows.append(row)
            keys.append(key)
        except InstanceError as error:
            reason = str(error).removeprefix("instance 0: ")
            errors.append({"row": row, "reason": reason})
    return Batch(path=batch.path, rows=rows, keys=keys, errors=errors), predictions


def check_errors(shards: Sequence[PredictionFiles], *, max_errors: float) -> None:
    """Raise a DataError with the first reasons if too many rows have no prediction."""
    num_errors = sum(shard.num_errors for shard in shards)
    total = num_errors + sum(shard.num_rows for shard in shards)
    if not total:
        raise DataError("the files have no rows")
    if num_errors <= max_errors * total:
        return
    first = [error for shard in shards for error in shard.first_errors][:NUM_SHOWN]
    first[0] = {**first[0], "reason": explained(first[0])}
    reasons = "; ".join(
        f"{error['file']} row {error['row']}: {error.get('column', '')} {error['reason']}"
        for error in first
    ).replace(":  ", ": ")
    raise DataError(
        f"{num_errors:,} of {total:,} rows ({num_errors / total:.1%}) have no prediction, and"
        f" max_errors is {max_errors:.1%}: {reasons}; correct the files, or raise max_errors to"
        " get the other predictions"
    )
