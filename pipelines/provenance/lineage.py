"""Lineage: what a model version was made of, and which versions have learnt from a file."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from components.model_version.history import decision_history, history_of
from components.model_version.registry import list_versions
from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.reading.files import JSON, open_records, open_table
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.run_result.settings import settings_of
from components.run_result.summary import summarize
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL, label_of
from components.shared.vertex.resource_name import ResourceName
from pipelines.provenance.record import Record, record_of_version
from pipelines.resources.endpoints import list_endpoints
from pipelines.resources.models import all_versions
from pipelines.resources.names import second, version_called
from trainer import Json
from trainer.serving.digests import file_digest

NOW, EARLIER, ELSEWHERE = "as it is now", "another content of it", "the same content, as {}"
UNKNOWN = "unknown: its {:,} files are too many to be listed"


def lineage_of(api: VertexApi, name: str) -> Json:
    """Return the facts of the version `mnist@3` by their kind, each as far as it is known.

    Raises:
        ResourceError: the name has no version.
    """
    version = api.get(version_called(api, name).name)
    record = record_of_version(api, version)
    resource = ResourceName.from_name(version["name"])
    number = str(version["versionId"])
    called = f"{version['displayName']}@{number}"
    siblings = list_versions(api, resource.unversioned)
    summary = summarize(record.job) if record.job else None
    settings = settings_of(record.job)
    splits = record.manifest.get("splits", {})
    return {
        "version": {
            "name": called,
            "aliases": version.get("versionAliases", []),
            "created": version.get("versionCreateTime", ""),
            "files": record.model_uri,
        },
        "run": {
            "name": label_of(version, RUN_LABEL),
            "outcome": summary.outcome if summary else "",
            "created": summary.created if summary else "",
            "schedule": summary.schedule if summary else "",
        },
        "code": {
            "source": record.source and f"src-{record.source}",
            "workload": str(record.parameters.get("workload", "")),
        },
        "intended_use": record.described.get("intended_use", ""),
        "data": {
            "fingerprint": record.data.get("fingerprint", ""),
            "files": record.data.get("files") or [],
            "num_files": record.data.get("num_files", 0),
            "dates": record.data.get("dates", []),
            "split": record.manifest.get("split_rule", ""),
            "examples": {split: facts["num_examples"] for split, facts in splits.items()},
        },
        "settings": settings,
        "machine": record.machine,
        "evaluation": {
            "verdict": summary.verdict if summary else "",
            "reasons": list(summary.reasons) if summary else [],
            "metrics": record.evaluation.get("metrics", {}),
            "intervals": record.evaluation.get("intervals", {}),
            "slices": record.evaluation.get("slices", []),
            "compared_with": (record.evaluation.get("champion") or {}).get("version", ""),
        },
        "decisions": [
            {
                "what": entry.cause,
                "since": entry.since,
                "until": entry.until,
                "by": entry.by or entry.run,
                "reasons": entry.reasons,
            }
            for entry in [*history_of(siblings), *decision_history(siblings)]
            if entry.version == number
        ],
        "endpoints": [
            {"name": endpoint["endpoint"], "traffic": served["traffic"]}
            for endpoint in list_endpoints(api)
            for served in endpoint["serves"]
            if served["version"] == called
        ],
    }


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A version that a file has reached; `content` tells whether it was the file as it is now."""

    version: str
    run: str
    created: str
    content: str


def reached_by(api: VertexApi, path: Path, *, key: str = "") -> list[Reached]:
    """Return the versions whose raw files have a file's path or content, oldest first.

    With `key`, without those whose workload names no column as key, or whose file, as it is now,
    has no row with this value in that column.

    Raises:
        DataError: the file cannot be read, or no version's workload has a key.
    """
    digest, name = file_digest(str(path)), str(path.absolute())
    found = []
    for version in all_versions(api):
        record = record_of_version(api, version)
        content = _content(record, name, digest)
        if content and (not key or _has_row(path, record.key_column, key)):
            found.append(
                Reached(
                    version=f"{version['displayName']}@{version['versionId']}",
                    run=label_of(version, RUN_LABEL),
                    created=second(str(version.get("versionCreateTime", ""))),
                    content=content,
                )
            )
    return found


def _content(record: Record, name: str, digest: str) -> str:
    """Return how a record lists a file, "" if it does not."""
    if not record.files and (count := record.data.get("num_files")):
        return UNKNOWN.format(count)
    if name in record.files:
        return NOW if digest in record.files[name] else EARLIER
    same = [other for other, facts in record.files.items() if digest in facts]
    return ELSEWHERE.format(same[0]) if same else ""


def _has_row(path: Path, column: str, key: str) -> bool:
    if not column:
        return False
    return any(value == key for value in _values(str(path), column))


def _values(path: str, column: str) -> Iterator[str]:
    """Yield the values of a column of a table's file as texts."""
    file = open_table(path)
    if column not in file.names:
        raise DataError(f"{path} has no column {column!r}, the key; it has {', '.join(file.names)}")
    if file.has_groups:
        batches = json_batches(path) if file.kind == JSON else parquet_batches(path)
        for batch in batches:
            yield from map(str, batch.column(column).to_pylist())
        return
    at = file.names.index(column)
    with open_records(path, file.kind, file.data_start) as content:
        text = io.TextIOWrapper(content, encoding="utf-8", errors="replace", newline="")
        yield from (
            row[at].strip() for row in csv.reader(text, delimiter=file.separator) if len(row) > at
        )
