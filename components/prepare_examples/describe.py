"""Judges the statistics of new examples, and writes everything that describes them."""

import json
from pathlib import Path

from components.prepare_examples.options import PrepareOptions
from components.prepare_examples.publish import local_path
from components.prepare_examples.statistics import anomalies, drift, report, schema
from trainer.json_types import Json


def describe_examples(
    statistics: Json, folder: Path, options: PrepareOptions, *, duplicates: Json | None = None
) -> Json:
    """Writes statistics, schema, anomalies and report; answers the manifest's fields on them.

    Args:
        statistics: of the new examples.
        folder: where to write.
        options: what to hold them against.
        duplicates: `KeyCounts.summary`, if the table has keys.

    Raises:
        DataError: there are anomalies that block.
    """
    workload = statistics["workload"]
    expected = schema.read_schema(local_path(options.schema)) if options.schema else None
    expected = expected or schema.infer_schema(statistics)
    found = anomalies.find_anomalies(statistics, expected, is_inferred=not options.schema)
    found += anomalies.duplicate_anomalies(duplicates)
    columns, drifts = dict(statistics["splits"]), []
    if options.baseline:
        baseline = drift.read_baseline(local_path(options.baseline))
        drifts = drift.measure_drift(statistics, baseline)
        found += drift.drift_anomalies(drifts, options.drift_thresholds)
        columns["train of the baseline"] = baseline["splits"]["train"]
    anomalies.check(found, block_on=options.block_on)
    (folder / "statistics.json").write_text(json.dumps(statistics) + "\n")
    facets = schema.to_facets(statistics).SerializeToString(deterministic=True)
    (folder / "statistics.pb").write_bytes(facets)
    schema.write_schema(expected, folder / "schema.pbtxt")
    content = {"anomalies": [a.to_json() for a in found], "drift": [d.to_json() for d in drifts]}
    (folder / "anomalies.json").write_text(json.dumps(content, indent=2) + "\n")
    page = report.render(f"Examples of {workload}", columns, anomalies=found, drifts=drifts)
    (folder / report.FILE).write_text(page, encoding="utf-8")
    drifted = drift.beyond(drifts, options.drift_thresholds)
    return {
        **({"drift": [d.words for d in drifted]} if options.baseline else {}),
        "schema_sha256": schema.digest((folder / "schema.pbtxt").read_text()),
        "num_errors": sum(a.severity == anomalies.ERROR for a in found),
        "num_warnings": sum(a.severity == anomalies.WARNING for a in found),
    }
