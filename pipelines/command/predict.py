"""`trainyard endpoints predict`: ask an endpoint with the instances of a file."""

import argparse
from pathlib import Path
from typing import Any

from pipelines.command.models_endpoints import add_action, api_of, print_json, print_table
from pipelines.serving import instances

DESCRIPTION = """\
Asks an endpoint for predictions. A large file is sent in several requests.

  trainyard endpoints predict mnist --json-instances digits.jsonl
  head -n 1 digits.jsonl | trainyard endpoints predict mnist --json-instances -
  trainyard endpoints predict mnist --instances request.json
"""


def add_predict(actions: Any) -> None:
    """Adds `endpoints predict`."""
    predict = add_action(actions, "predict", _predict, "ask for predictions", "ENDPOINT")
    predict.description = DESCRIPTION
    predict.formatter_class = argparse.RawDescriptionHelpFormatter
    files = predict.add_mutually_exclusive_group(required=True)
    files.add_argument(
        "--instances",
        "--json-request",
        type=Path,
        metavar="FILE",
        help='JSON: {"instances": [...]}; - is standard input',
    )
    files.add_argument(
        "--json-instances",
        type=Path,
        metavar="FILE",
        help="one instance a line, as JSON, as gcloud takes it; - is standard input",
    )
    predict.add_argument(
        "--format",
        choices=("json", "table"),
        help="default: a table for --json-instances, JSON for --instances",
    )


def _predict(arguments: argparse.Namespace) -> int:
    if arguments.json_instances:
        given = instances.read_lines(arguments.json_instances)
    else:
        given = instances.read_document(arguments.instances)
    with api_of(arguments) as api:
        predictions = instances.predict(api, arguments.name, given)
    is_table = bool(arguments.json_instances)
    if arguments.format:
        is_table = arguments.format == "table"
    if is_table:
        return print_table(instances.predictions_table(predictions), is_whole=True)
    return print_json(predictions)
