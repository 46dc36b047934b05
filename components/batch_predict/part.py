"""The prediction of one part of the input, an element of the Beam pipeline."""

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from components.batch_predict.inputs.batch import Batch
from components.batch_predict.inputs.lines import read_lines, read_pictures
from components.batch_predict.inputs.plan import LINES, PICTURES, TABLES
from components.batch_predict.inputs.records import read_records
from components.batch_predict.inputs.tables import read_table
from components.batch_predict.output import PredictionFiles
from components.batch_predict.unknown_values import UnknownValues
from components.prepare_examples.errors import DataError
from trainer import Json
from trainer.config.trust import STRANGER, Trust
from trainer.errors import InstanceError, TrainerError
from trainer.runtime.tensorflow_logs import import_tensorflow

LINE_SECONDS = 5.0
logger = logging.getLogger(__name__)
# The progress of this process. Workers of Beam in other processes have none.
_followers: list[Callable[[int], None]] = []


@dataclass(frozen=True, kw_only=True)
class PredictionOptions:
    """Options of every part."""

    model_uri: str
    num_parts: int
    format: str
    time_zone: str = ""
    trust: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()  # of the input, to find the pictures of a table


@functools.lru_cache(maxsize=1)
def load_model(model_uri: str, trust: Trust = STRANGER) -> Any:
    """Return the predictor of a model, which is kept for the parts after the first.

    Raises:
        DataError: it cannot be loaded, or needs more trust.
    """
    import_tensorflow()
    from trainer.serving.signature import load_any

    try:
        return load_any(model_uri, trust=trust)
    except TrainerError as error:
        raise DataError(str(error)) from error


def predict_part(part: Json, *, options: PredictionOptions, output_dir: str) -> Json:
    """Write the files of one part; return their entries.

    Raises:
        DataError: a file is damaged, or the model cannot be loaded.
    """
    predictor = load_model(options.model_uri, Trust.from_flags(options.trust))
    unknown = UnknownValues(getattr(predictor, "workload", None))
    with PredictionFiles(
        Path(output_dir),
        number=part["number"],
        num_parts=options.num_parts,
        kind=options.format,
        specs=predictor.prediction_specs(),
    ) as files:
        for batch in _batches(part, predictor, options):
            unknown.count(batch)
            files.write(*_predicted(batch, predictor))
            advance(batch.num_read)
    return {**files.result(), "unknown": unknown.by_column}


def _batches(part: Json, predictor: Any, options: PredictionOptions) -> Iterator[Batch]:
    if part["kind"] == TABLES:
        zone, patterns = options.time_zone, options.patterns
        return read_table(part, predictor, time_zone=zone, patterns=patterns)
    readers = {LINES: read_lines, PICTURES: read_pictures}
    return readers.get(part["kind"], read_records)(part, predictor)


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


def advance(num_rows: int) -> None:
    """Count further rows as done."""
    for follow in _followers:
        follow(num_rows)


@contextlib.contextmanager
def shown(num_bytes: int) -> Iterator[None]:
    """Log the number of rows and their rate during the block; `num_bytes` is the input's size."""
    began = last = time.monotonic()
    done = 0

    def add(num_rows: int) -> None:
        nonlocal done, last
        done += num_rows
        now = time.monotonic()
        if now - last > LINE_SECONDS:
            last, rate = now, done / (now - began)
            logger.info(
                "predicting %.1f MB: %s rows, %s rows/s",
                num_bytes / 1e6,
                f"{done:,}",
                f"{rate:,.0f}",
            )

    _followers.append(add)
    try:
        yield
    finally:
        _followers.remove(add)
