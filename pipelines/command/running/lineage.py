"""`trainyard lineage`: what a version was made of, and which versions have learnt from a file."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from components.shared.text.value_text import number_text
from components.shared.vertex.api import VertexApi
from pipelines.command.actions import add_json, describe, print_json, print_table
from pipelines.command.target_options import add_target, with_api
from pipelines.errors import ResourceError
from pipelines.resources.names import second
from pipelines.resources.table import TextTable
from trainer import Json

LINEAGE = """\
Of a version: its run, code, data, settings, machine, evaluation, decisions and endpoints. Of a file
of raw data: the versions that have learnt from it, or were judged by it; with --key only if it has
this row, as when a person asks to be forgotten. `trainyard reproduce` makes a version again;
`trainyard models card` writes a model card from the same facts.

  trainyard lineage churn@3
  trainyard lineage data/customers.csv
  trainyard lineage data/customers.csv --key 48213
"""
HEADINGS = ("VERSION", "RUN", "CREATED", "THE FILE")
MAX_FILES = 10
WIDTH = 12


def add_lineage(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `lineage`."""
    describe(parser, LINEAGE)
    parser.add_argument("what", metavar="MODEL@VERSION|FILE", help="such as churn@3, or a raw file")
    text = "value of the workload's key in a row of FILE"
    parser.add_argument("--key", metavar="VALUE", default="", help=text)
    add_json(parser, "print all facts as JSON")
    add_target(parser)
    parser.set_defaults(command=with_api(_lineage))


def _lineage(api: VertexApi, arguments: argparse.Namespace) -> int:
    from pipelines.provenance.lineage import lineage_of, reached_by  # imports PyArrow

    path = Path(arguments.what)
    if path.is_file():
        found = reached_by(api, path, key=arguments.key)
        if arguments.json:
            return print_json([asdict(one) for one in found])
        if found:
            return print_table(TextTable(HEADINGS, list(map(astuple, found))))
        row = f" with a row of key {arguments.key!r}" if arguments.key else ""
        print(f"no version has read {path}{row}")
        return 0
    if "@" not in arguments.what:
        raise ResourceError(f"{arguments.what} is neither a file nor MODEL@VERSION")
    facts = lineage_of(api, arguments.what)
    if arguments.json:
        return print_json(facts)
    below = "\n" + " " * WIDTH
    for name, lines in lineage_lines(facts):
        print(f"{name:{WIDTH}}{below.join(lines)}")
    return 0


def lineage_lines(facts: Json) -> Iterator[tuple[str, list[str]]]:
    """Yield the kinds of facts that are known, each with its lines."""
    version, run, code, data = (facts[name] for name in ("version", "run", "code", "data"))
    aliases = ", ".join(version["aliases"])
    yield "version", [_line(version["name"], aliases, f"created {second(version['created'])}")]
    starter = f"started by the schedule {run['schedule']}" if run["schedule"] else ""
    yield "run", [_line(run["name"] or "uploaded by hand", run["outcome"], starter)]
    yield "code", [_line(code["source"], code["workload"]) or "unknown"]
    yield "data", list(_data_lines(data))
    settings = facts["settings"]
    cluster = {key: settings[key] for key in settings if key.startswith("cluster.")}
    if cluster:
        named = (f"{key.removeprefix('cluster.')} {value}" for key, value in cluster.items())
        yield "cluster", [", ".join(named)]
    if machine := facts["machine"]:
        packages = machine["packages"]
        known = [f"{name} {packages[name]}" for name in ("tensorflow", "keras") if name in packages]
        cores = f"{machine['cores']} cores of {machine['processor']}"
        yield "machine", [_line(f"Python {machine['python']}", *known, cores)]
    if metrics := facts["evaluation"]["metrics"]:
        named = (
            f"{name} {number_text(value)}" for name, value in metrics.items() if value is not None
        )
        yield "evaluation", [_line(facts["evaluation"]["verdict"], *named)]
    if decisions := facts["decisions"]:
        yield "decisions", [_decision(one) for one in decisions]
    serving = [f"{one['name']}, {one['traffic']} % of its traffic" for one in facts["endpoints"]]
    yield "endpoints", serving or ["none"]


def _line(*facts: str) -> str:
    return ", ".join(filter(None, facts))


def _data_lines(data: Json) -> Iterator[str]:
    counts = ", ".join(f"{name} {count:,}" for name, count in data["examples"].items())
    yield _line(f"{data['num_files']:,} files", counts and f"examples: {counts}", data["split"])
    for name, *known in data["files"][:MAX_FILES]:
        yield f"{name}  {'  '.join(map(_fact, known))}"
    if more := len(data["files"][MAX_FILES:]):
        yield f"and {more:,} more (--json)"


def _fact(value: Any) -> str:
    return f"{value:,} bytes" if isinstance(value, int) else str(value)


def _decision(entry: Json) -> str:
    until = "" if entry["until"] == entry["since"] else f" to {second(entry['until']) or 'now'}"
    when = f"{second(entry['since'])}{until}"
    return f"{when}: {_line(entry['what'], entry['by'] and 'by ' + entry['by'], entry['reasons'])}"
