"""`trainyard lineage`: what a version was made of, and which versions have learnt from a file."""

import argparse
from os.path import isfile

from components.shared.vertex.api import VertexApi
from pipelines.command.actions import add_json, describe, print_json, print_table
from pipelines.command.target_options import add_target, with_api
from pipelines.errors import ResourceError
from pipelines.resources.names import get_version
from pipelines.resources.table import TextTable

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
    from pipelines.provenance.lineage import lineage_of, lineage_text, reached_by  # PyArrow

    what = arguments.what
    is_file = isfile(what)
    if is_file or "@" not in what:
        found = list(reached_by(api, what, key=arguments.key))
        if not found and not is_file:
            raise ResourceError(
                f"{what} is neither a file, of now or of a version, nor MODEL@VERSION"
            )
        if arguments.json:
            return print_json(found)
        if found:
            return print_table(TextTable(HEADINGS, [tuple(one.values()) for one in found]))
        row = f" with a row of key {arguments.key!r}" if arguments.key else ""
        print(f"no version has read {what}{row}")
        return 0
    if arguments.key:
        raise ResourceError(f"--key is of a FILE, and {what} is none")
    facts = lineage_of(api, get_version(api, what))
    if arguments.json:
        return print_json(facts)
    print(lineage_text(facts))
    return 0
