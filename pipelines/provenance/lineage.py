"""Lineage: what a model version was made of, and which versions have learnt from a file."""

import csv
import functools
import io
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from components.model_version.history import decision_history, history_of
from components.model_version.registry import list_versions
from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.reading.files import JSON, open_records, open_table
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.run_result.settings import WORKLOAD
from components.shared.text.json_object import numbers
from components.shared.text.value_text import number_text
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL, STATE_LABEL, label_of
from pipelines.provenance.record import Record, record_of_version
from pipelines.resources.endpoints import list_endpoints
from pipelines.resources.models import all_versions
from pipelines.resources.names import get_version, second
from pipelines.resources.table import fact_lines
from trainer import Json
from trainer.serving.digests import file_digest

MAX_FILES = 10
JUDGED = ("metrics", "intervals", "slices", "champion")  # of an evaluation
NOW, EARLIER, ELSEWHERE = "as it is now", "another content of it", "the same content, as {}"
UNKNOWN = "unknown: its {:,} files are too many to be listed"


def lineage_of(api: VertexApi, name: str) -> Json:
    """Return the facts of the version `mnist@3` by their kind, each as far as it is known.

    `run` is the content of its summary.json.

    Raises:
        ResourceError: the name has no version.
    """
    version = get_version(api, name)
    record, number = record_of_version(api, version), str(version["versionId"])
    called = f"{version['displayName']}@{number}"
    siblings = list_versions(api, version["name"])
    history = [*history_of(siblings), *decision_history(siblings)]
    splits = record.manifest.get("splits", {})
    return {
        "version": {
            "name": called,
            "aliases": version.get("versionAliases", []),
            "state": label_of(version, STATE_LABEL),
            "created": version.get("versionCreateTime", ""),
            "run": label_of(version, RUN_LABEL),
            "files": record.model_uri,
        },
        "run": asdict(record.summary) if record.job else {},
        "source": record.source,
        "intended_use": record.described.get("intended_use", ""),
        "data": {
            **record.data,
            "split": record.manifest.get("split_rule", ""),
            "examples": {split: facts["num_examples"] for split, facts in splits.items()},
        },
        "machine": record.machine,
        "evaluation": {key: record.evaluation.get(key) for key in JUDGED},
        "decisions": [asdict(entry) for entry in history if entry.version == number],
        "endpoints": [
            {"name": endpoint["endpoint"], "traffic": served["traffic"]}
            for endpoint in list_endpoints(api)
            for served in endpoint["serves"]
            if served["version"] == called
        ],
    }


def lineage_lines(facts: Json) -> Iterator[tuple[str, list[str]]]:
    """Yield the kinds of facts that are known, each with its lines."""
    version, run, machine = facts["version"], facts["run"], facts["machine"]
    made = f"created {second(version['created'])}"
    called = _line(version["name"], *version["aliases"], version["state"], made)
    yield "version", [called, version["files"]]
    by = run.get("schedule") and f"of the schedule {run['schedule']}"
    yield "run", [_line(version["run"] or "none: uploaded by hand", run.get("outcome"), by)]
    if run:
        settings = run["settings"]
        named = (f"{name} {value}" for name, value in settings.items() if value)
        yield "code", [_line(settings[WORKLOAD], run["project_digest"], facts["source"])]
        yield "settings", [_line(*named)]
    yield "data", list(_data_lines(facts["data"]))
    if machine:
        versions = (f"{name} {machine['packages'].get(name)}" for name in ("tensorflow", "keras"))
        cores = f"{machine['cores']} cores of {machine['processor']}"
        yield "machine", [_line(f"Python {machine['python']}", *versions, cores)]
    if metrics := facts["evaluation"]["metrics"]:
        measured = (f"{name} {number_text(value)}" for name, value in numbers(metrics).items())
        yield "evaluation", [_line(run.get("verdict"), *measured)]
    if decisions := facts["decisions"]:
        yield "decisions", [_decision(one) for one in decisions]
    serving = [f"{one['name']}, {one['traffic']} % of its traffic" for one in facts["endpoints"]]
    yield "endpoints", serving or ["none"]


def lineage_text(facts: Json) -> str:
    """Return the facts that are known as lines of a text."""
    return "\n".join(fact_lines({kind: "\n".join(lines) for kind, lines in lineage_lines(facts)}))


def _line(*facts: str | None) -> str:
    return ", ".join(filter(None, facts))


def _data_lines(data: Json) -> Iterator[str]:
    counts = (f"{count:,} to {split}" for split, count in data["examples"].items())
    yield _line(f"{data.get('num_files', 0):,} raw files", *counts, data["split"])
    files = data.get("files") or []
    for name, *known in files[:MAX_FILES]:
        sizes = (f"{one:,} bytes" if isinstance(one, int) else one for one in known)
        yield f"{name}: {_line(*sizes)}"
    if more := len(files[MAX_FILES:]):
        yield f"and {more:,} more"


def _decision(entry: Json) -> str:
    times = dict.fromkeys([second(entry["since"]), second(entry["until"]) or "now"])
    by = f"by {entry['by'] or entry['run']}"
    return f"{' to '.join(times)}: {_line(entry['cause'], by, entry['reasons'])}"


def reached_by(api: VertexApi, path: Path, *, key: str = "") -> list[Json]:
    """Return the versions whose raw files have a file's path or content, oldest first.

    `file` tells whether it was the file as it is now. With `key`, without those whose workload
    names no column as key, or if the file, as it is now, has no row with this value in it.

    Raises:
        DataError: the file cannot be read, or lacks the column.
    """
    digest, name = file_digest(str(path)), str(path.absolute())
    has_row = functools.cache(lambda column: key in _values(str(path), column))
    found = []
    for version in all_versions(api):
        record = record_of_version(api, version)
        content = _content(record, name, digest)
        if content and (not key or has_row(record.key_column)):
            found.append(
                {
                    "version": f"{version['displayName']}@{version['versionId']}",
                    "run": label_of(version, RUN_LABEL),
                    "created": second(str(version.get("versionCreateTime", ""))),
                    "file": content,
                }
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


def _values(path: str, column: str) -> Iterator[str]:
    """Yield the values of a column of a table's file as texts, none of no column."""
    if not column:
        return
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
