"""The manifest of a dataset and the files beside it, the same for every kind of raw data."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from components.prepare_examples.errors import Refuse
from components.prepare_examples.output.publish import ANOMALIES, MANIFEST, local_path
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.statistics import drift, report, schema
from components.prepare_examples.tfrecords.shards import ENTRY_FIELDS, SPLITS, limit_keys
from trainer import Json

LIMITED = "; limited to "  # in a split rule: what follows it moves no row


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of manifest.json; fields that a kind of data lacks are None.

    Attributes:
        split_rule: the rule that decides the split of an example, in words.
        split: a declared rule, with the first moment of each split, and the rows in none by reason.
        split_columns: the columns whose values it hashes, if they are all of a table's.
        label: the label in words; labels: the names of the classes of images.
        image: size, channels and fit of images.
        query: of BigQuery.
        settings: those that differ from their defaults.
        rows: the number of rows that were read, and what became of them.
        unused: the files that no row names.
        times: the columns of times, and the zones that were converted.
    """

    workload: str
    compression: str
    split_rule: str
    split: Json | None = None
    split_columns: Sequence[str] | None = None
    label: str | None = None
    labels: Sequence[str] | None = None
    image: Json | None = None
    query: str | None = None
    sources: Sequence[Json]
    settings: Json
    rows: Json | None = None
    quarantine: Json | None = None
    unused: Json | None = None
    times: Json | None = None
    splits: Json

    def to_json(self) -> Json:
        """Return the fields that this kind of data has."""
        return {name: value for name, value in vars(self).items() if value is not None}


def source_entry(file: str, sha256: str, *, is_verified: bool) -> Json:
    """Return the entry of a raw file."""
    return {"file": file, "sha256": sha256, "verified": is_verified}


def splits_of_entries(entries: Iterable[Json]) -> Json:
    """Return the manifest's `splits` from the entries of files."""
    splits: Json = {split: {"num_examples": 0, "shards": []} for split in SPLITS}
    for entry in limit_keys(entries):
        split = splits[entry["split"]]
        split["num_examples"] += entry["num_examples"]
        split["shards"].append({name: entry[name] for name in ENTRY_FIELDS if name in entry})
    return splits


def split_of(manifest: Json) -> Json:
    """Return the rule that decides the split of a row, with the columns that it depends on.

    A rule by time has the first moment of each split, too.
    """
    rule = str(manifest.get("split_rule", "")).partition(LIMITED)[0]
    facts = {"rule": rule, "columns": manifest.get("split_columns", [])}
    split = manifest.get("split", {})
    return {**facts, "by": split["by"], "starts": split["starts"]} if "starts" in split else facts


def split_notes(manifest: Json) -> list[str]:
    """Return notes on a declared rule: the first moment of each split, and the rows in none."""
    split = manifest.get("split", {})
    starts = [f"{name} from {moment}" for name, moment in split.get("starts", {}).items()]
    outside = [f"{count:,} {reason}" for reason, count in split.get("outside", {}).items()]
    return [
        *([f"{split['by']}: {', '.join(starts)}"] if starts else []),
        *([f"rows in no split: {', '.join(outside)}"] if outside else []),
    ]


def rule_words(manifest: Json) -> str:
    """Return the rule of a dataset's split in words, with its notes."""
    return ". ".join([f"Split {manifest['split_rule']}", *split_notes(manifest)])


def finish_dataset(
    manifest: Manifest,
    splits: Json,
    folder: Path,
    *,
    settings: PrepareOptions,
    refuse: Refuse,
) -> None:
    """Refuse anomalies that block, and write all files that describe the examples.

    `splits` has the statistics of each. The manifest is the last file.
    """
    statistics = {"workload": manifest.workload, "splits": splits}
    path = local_path(settings.schema_file) if settings.schema_file else None
    expected = schema.read_schema(path) if path else schema.infer_schema(statistics)
    problems = schema.find_anomalies(statistics, expected, is_inferred=path is None)
    if manifest.split and path is None:  # no random parts: later rows may well differ
        problems = [replace(anomaly, severity=schema.WARNING) for anomaly in problems]
    earlier, drifts, content = {}, [], manifest.to_json()
    if settings.baseline:
        baseline = drift.read_baseline(local_path(settings.baseline))
        drifts = drift.measure_drift(statistics, baseline)
        problems += drift.drift_anomalies(drifts, settings.drift_threshold)
        earlier["baseline"] = baseline["splits"]["train"]
        content["drift"] = [d.words for d in drift.beyond(drifts, settings.drift_threshold)]
    schema.check(problems, block_on=settings.block_on, refuse=refuse)
    (folder / drift.STATISTICS).write_text(json.dumps(statistics) + "\n")
    content["schema_sha256"] = schema.write_schema(expected, folder / "schema.pbtxt")
    for severity in (schema.ERROR, schema.WARNING):
        content[f"num_{severity}s"] = sum(a.severity == severity for a in problems)
    listed = {"anomalies": list(map(asdict, problems)), "drift": list(map(asdict, drifts))}
    (folder / ANOMALIES).write_text(json.dumps(listed, indent=2) + "\n")
    page = report.data_page(
        content, statistics, rule=rule_words(content), anomalies=problems, earlier=earlier
    )
    (folder / report.FILE).write_text(page, encoding="utf-8")
    (folder / MANIFEST).write_text(json.dumps(content, indent=2) + "\n")
