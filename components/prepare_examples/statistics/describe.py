"""The files that describe a table's examples: statistics, schema, anomalies and report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.prepare_examples.statistics import anomalies, drift, report, schema
from trainer import Json


def compare_with_schema(
    statistics: Json,
    schema_path: Path | None = None,
    *,
    infer: Callable[[Json], Any] = schema.infer_schema,
) -> tuple[Any, list[anomalies.Anomaly]]:
    """Return the schema, read or inferred from the train split, and the anomalies beside it."""
    expected = schema.read_schema(schema_path) if schema_path else infer(statistics)
    is_inferred = schema_path is None
    return expected, anomalies.find_anomalies(statistics, expected, is_inferred=is_inferred)


def describe_examples(
    statistics: Json,
    folder: Path,
    *,
    schema_path: Path | None = None,
    baseline_path: Path | None = None,
    drift_threshold: float,
    block_on: str,
    infer: Callable[[Json], Any] = schema.infer_schema,
    facets: Callable[[Json], Any] = schema.to_facets,
) -> Json:
    """Check the statistics, write all files and return the manifest's fields about them.

    Args:
        statistics: of the new examples.
        folder: where to write.
        schema_path: a schema.pbtxt to check against; None infers one from the train split.
        baseline_path: statistics of an earlier run, to measure drift from.
        drift_threshold: the index above which drift is a warning.
        block_on: the least severity that blocks; see `anomalies.check`.
        infer: returns the schema of statistics.
        facets: returns the statistics as tensorflow-metadata's message.

    Raises:
        DataError: there are anomalies that block.
    """
    expected, found = compare_with_schema(statistics, schema_path, infer=infer)
    columns, drifts = dict(statistics["splits"]), []
    if baseline_path:
        baseline = drift.read_baseline(baseline_path)
        drifts = drift.measure_drift(statistics, baseline)
        found += drift.drift_anomalies(drifts, drift_threshold)
        columns["train of the baseline"] = baseline["splits"]["train"]
    anomalies.check(found, block_on=block_on)
    (folder / drift.STATISTICS).write_text(json.dumps(statistics) + "\n")
    message = facets(statistics).SerializeToString(deterministic=True)
    (folder / "statistics.pb").write_bytes(message)
    schema.write_schema(expected, folder / "schema.pbtxt")
    content = {"anomalies": [a.to_json() for a in found], "drift": [d.to_json() for d in drifts]}
    (folder / "anomalies.json").write_text(json.dumps(content, indent=2) + "\n")
    title = f"Examples of {statistics['workload']}"
    page = report.render(title, columns, anomalies=found, drifts=drifts)
    (folder / report.FILE).write_text(page, encoding="utf-8")
    drifted = drift.beyond(drifts, drift_threshold)
    return {
        **({"drift": [d.words for d in drifted]} if baseline_path else {}),
        "schema_sha256": schema.digest((folder / "schema.pbtxt").read_text()),
        "num_errors": sum(a.severity == anomalies.ERROR for a in found),
        "num_warnings": sum(a.severity == anomalies.WARNING for a in found),
    }
