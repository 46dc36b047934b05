"""Batch prediction step: predicts the rows of files and publishes the predictions."""

import json
import re
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from components.batch_predict.inputs.plan import find_inputs, plan_parts, without_pictures
from components.batch_predict.options import PredictOptions
from components.batch_predict.part import PredictionOptions, load_model, predict_part, shown
from components.batch_predict.unknown_values import merge_unknown
from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.beam.runner_flags import checked_flags
from components.prepare_examples.errors import DataError
from components.prepare_examples.output.publish import check_replaceable, local_path, published
from components.prepare_examples.tables.reading.encodings import explained
from trainer import Json, paths
from trainer.config.trust import STRANGER, Trust

SUMMARY = "summary.json"
OWN_FILE = re.compile(
    r"predictions-\d{5}-of-\d{5}\.(jsonl|parquet)|errors-\d{5}-of-\d{5}\.jsonl"
    rf"|{re.escape(SUMMARY)}"
)
IN_SUMMARY = ("first_errors", "unknown")
NUM_SHOWN = 3


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
    files = find_inputs(inputs)
    model_uri = paths.uri(model_uri).rstrip("/")
    flags = checked_flags(options.beam_options, output)
    predictor = load_model(model_uri, trust)
    patterns = tuple(str(local_path(pattern)) for pattern in inputs)
    files = without_pictures(files, predictor, patterns)
    parts, unused = plan_parts(files, predictor, options)
    if not parts:
        raise DataError(f"{', '.join(inputs)}: the files have no rows")
    part_options = PredictionOptions(
        model_uri=model_uri,
        num_parts=len(parts),
        format=options.format,
        time_zone=options.time_zone,
        trust=tuple(trust.flags()),
        patterns=patterns,
    )
    num_bytes = sum(Path(path).stat().st_size for path in files)
    began = time.monotonic()
    with published(output, last=SUMMARY) as folder, shown(num_bytes):
        result = _run(parts, folder, options=part_options, flags=flags)
        check_errors(result["shards"], max_errors=options.max_errors)
        summary = {
            "model": model_uri,
            "workload": getattr(getattr(predictor, "workload", None), "name", ""),
            "files": len(files),
            "unused_columns": unused,
            "unknown_values": merge_unknown(result["shards"]),
            **_written(result["shards"], time.monotonic() - began),
        }
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def describe(summary: Json) -> str:
    """Return the summary in one line."""
    errors = f", {summary['errors']:,} without a prediction" if summary["errors"] else ""
    return (
        f"{summary['predictions']:,} predictions{errors}, {summary['seconds']:.1f} s"
        f" ({summary['rows_per_second']:,.0f} rows/s)"
    )


def _run(
    parts: Sequence[Json], folder: Path, *, options: PredictionOptions, flags: Sequence[str]
) -> Json:
    return run_pipeline(
        parts,
        partial(predict_part, options=options, output_dir=str(folder)),
        _finish,
        folder=folder,
        flags=flags,
        in_processes=False,  # TensorFlow has its own threads
    )


def _finish(results: Iterable[Json]) -> Json:
    return {"shards": sorted(results, key=lambda entry: str(entry["file"]))}


def _written(shards: Sequence[Json], seconds: float) -> Json:
    """Return what the summary says about the files that were written."""
    predictions = sum(shard["num_rows"] for shard in shards)
    errors = sum(shard["num_errors"] for shard in shards)
    return {
        "rows": predictions + errors,
        "predictions": predictions,
        "errors": errors,
        "seconds": round(seconds, 3),
        "rows_per_second": round((predictions + errors) / seconds, 1),
        "shards": [
            {name: value for name, value in shard.items() if name not in IN_SUMMARY}
            for shard in shards
        ],
    }


def check_errors(shards: Sequence[Json], *, max_errors: float) -> None:
    """Raise a DataError with the first reasons if too many rows have no prediction."""
    num_errors = sum(shard["num_errors"] for shard in shards)
    total = num_errors + sum(shard["num_rows"] for shard in shards)
    if not total:
        raise DataError("the files have no rows")
    if num_errors <= max_errors * total:
        return
    first = [error for shard in shards for error in shard["first_errors"]][:NUM_SHOWN]
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
