"""Lineage: what a model version was made of, and which versions have learnt from a file."""

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache, partial
from os.path import abspath, isfile
from typing import Any

from components.model_version.history import HistoryEntry
from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.reading.files import (
    JSON,
    TableFile,
    open_records,
    open_table,
)
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.run_result.settings import WORKLOAD
from components.shared.text.json_object import numbers
from components.shared.text.value_text import number_text
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL, STATE_LABEL, label_of
from pipelines.provenance.record import Record, record_of_version
from pipelines.resources.endpoints import list_endpoints
from pipelines.resources.models import all_versions, model_history
from pipelines.resources.names import second, version_text, when
from pipelines.resources.table import fact_lines
from trainer import Json
from trainer.serving.digests import file_digest
from trainer.workloads.declarations.names import declared_names

MAX_FILES = 10
JUDGED = ("metrics", "intervals", "slices", "champion")  # of an evaluation
NOW, EARLIER, GONE = "as it is now", "another content of it", "not on this machine now"
ELSEWHERE = "the same content, as {}"
UNKNOWN = "unknown: its {:,} files are too many to be listed"


def lineage_of(api: VertexApi, version: Json) -> Json:
    """Return the facts of a version by their kind, each as far as it is known.

    `run` is the content of its summary.json.
    """
    record, called = record_of_version(api, version), version_text(version)
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
        "decisions": [
            asdict(entry)
            for entry in model_history(api, version["name"])
            if entry.version == version["versionId"]
        ],
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
    called = _line(
        version["name"],
        *version["aliases"],
        version["state"],
        f"created {second(version['created'])} UTC",
    )
    yield "version", [called, version["files"]]
    by = run.get("schedule") and f"of the schedule {run['schedule']}"
    outcome = run.get("outcome") or (version["run"] and "whose record is no longer there")
    yield "run", [_line(version["run"] or "none: uploaded by hand", outcome, by)]
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
    yield _line(f"raw files: {data.get('num_files', 0):,}", *counts, data["split"])
    files = data.get("files") or []
    for name, *known in files[:MAX_FILES]:
        sizes = (f"{one:,} bytes" if isinstance(one, int) else one for one in known)
        yield f"{name}: {_line(*sizes)}"
    if more := len(files[MAX_FILES:]):
        yield f"and {more:,} more"


def _decision(entry: Json) -> str:
    times = dict.fromkeys([second(entry["since"]), second(entry["until"]) or "now"])
    by = HistoryEntry(**entry).actor
    facts = _line(entry["cause"], by and f"by {by}", entry["reasons"])
    return f"{' to '.join(times)}: {facts}"


def reached_by(api: VertexApi, file: str, *, key: str = "") -> Iterator[Json]:
    """Yield the versions whose raw files have a file's path or content, oldest first.

    `file` tells whether it was the file as it is now; with `key` also whether it has a row of this
    key. Only a version that surely read no such row is left out.
    """
    digest = file_digest(file) if isfile(file) else ""
    name = file if "://" in file else abspath(file)
    has_row = cache(partial(_has_row, file, key))
    for version in all_versions(api):
        record, row = record_of_version(api, version), None
        if key and any(digest in facts for facts in record.files.values()):
            row = has_row(*record.key)
        content = _content(record, name, digest)
        if content and row is not False:
            yield {
                "version": version_text(version),
                "run": label_of(version, RUN_LABEL),
                "created": when(version, "versionCreateTime"),
                "file": content
                + ((", with the row" if row else ", perhaps with the row") if key else ""),
            }


def _content(record: Record, name: str, digest: str) -> str:
    """Return how a record lists a file, "" if it does not."""
    if not record.files and (count := record.data.get("num_files")):
        return UNKNOWN.format(count)
    if name in record.files:
        return NOW if digest in record.files[name] else EARLIER if digest else GONE
    same = [other for other, facts in record.files.items() if digest in facts]
    return ELSEWHERE.format(same[0]) if same else ""


def _has_row(path: str, key: str, column: str, aliases: Any, header: Any) -> bool | None:
    """Return whether a column of a table's file has a value, None if there is no such column."""
    try:
        file = open_table(path, header=header)
        names = declared_names(file.names, [column], dict(aliases))
        return key in _values(file, names.index(column)) if column and column in names else None
    except DataError:
        return None


def _values(file: TableFile, at: int) -> Iterator[str]:
    """Yield the values of a column as texts."""
    if file.has_groups:
        batches = json_batches(file.path) if file.kind == JSON else parquet_batches(file.path)
        for batch in batches:
            yield from map(str, batch.column(file.names[at]).to_pylist())
        return
    with open_records(file.path, file.kind, file.data_start) as content:
        text = io.TextIOWrapper(content, encoding="utf-8", errors="replace", newline="")
        yield from (
            row[at].strip() for row in csv.reader(text, delimiter=file.separator) if len(row) > at
        )
