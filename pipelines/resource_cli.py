"""`trainyard models|endpoints`: look at single resources, and change them."""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from components.vertex_api import VertexApi, connect
from pipelines import resources
from pipelines.ending import Kind
from pipelines.where import add_target, service_of, target_of

PIPE_WIDTH = 500  # nothing is cut for a program that reads it


def add_resource_commands(commands: Any) -> None:
    """Adds the two groups of commands."""
    _add_models(commands)
    _add_endpoints(commands)


def _add_models(commands: Any) -> None:
    actions = group_of(
        commands, "models", "models and their versions: list, show, set-default, delete"
    )
    add_action(actions, "list", _models_list, "all models with their versions")
    add_action(actions, "show", _models_show, "one model, or MODEL@VERSION", "MODEL")
    text = "give MODEL@VERSION the alias default; what endpoints serve stays"
    add_action(actions, "set-default", _models_set_default, text, "MODEL@VERSION")
    add_action(actions, "delete", _models_delete, "a model, or only MODEL@VERSION", "MODEL")


def _add_endpoints(commands: Any) -> None:
    actions = group_of(commands, "endpoints", "prediction endpoints: list, predict, delete")
    add_action(actions, "list", _endpoints_list, "all endpoints and what they serve")
    predict = add_action(actions, "predict", _endpoints_predict, "ask for predictions", "ENDPOINT")
    predict.add_argument(
        "--instances", type=Path, required=True, metavar="FILE", help='JSON: {"instances": [...]}'
    )
    add_action(actions, "delete", _endpoints_delete, "undeploy all and delete", "ENDPOINT")


def group_of(commands: Any, name: str, help_text: str) -> Any:
    """A command with actions: `trainyard models …`."""
    group = commands.add_parser(name, help=help_text, description=help_text)
    return group.add_subparsers(required=True, metavar="ACTION")


def add_action(
    actions: Any, name: str, command: Any, help_text: str, argument: str = ""
) -> argparse.ArgumentParser:
    """One of its actions, with the options that say where."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=help_text, description=help_text
    )
    if argument:
        parser.add_argument("name", metavar=argument)
    add_target(parser)
    parser.set_defaults(command=command)
    return parser


def add_endings(
    actions: Any, kind: Kind, argument: str, *, delete_help: str, delete: Any = None
) -> None:
    """The actions `cancel` and `delete` of what runs for a while."""
    text = f"end a {kind.noun}; harmless when it has ended"
    add_action(actions, "cancel", partial(_cancel, kind), text, argument)
    add_action(actions, "delete", delete or partial(_delete, kind), delete_help, argument)


@contextlib.contextmanager
def api_of(arguments: argparse.Namespace) -> Iterator[VertexApi]:
    """The API where the options say, for as long as the block lasts."""
    target = target_of(arguments, needs_bucket=False)
    with service_of(arguments, target):
        yield connect(target.project, target.location)


def _models_list(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        return print_table(resources.models_table(api))


def _models_show(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        return print_json(resources.get_model(api, arguments.name))


def _models_set_default(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        print(f"the default is {resources.set_default_version(api, arguments.name)}")
    return 0


def _models_delete(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        print(f"deleted {resources.delete_model(api, arguments.name)}")
    return 0


def _endpoints_list(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        return print_table(resources.endpoints_table(api))


def _endpoints_predict(arguments: argparse.Namespace) -> int:
    instances = resources.read_instances(arguments.instances)
    with api_of(arguments) as api:
        return print_json(resources.predict(api, arguments.name, instances))


def _endpoints_delete(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        print(f"deleted {resources.delete_endpoint(api, arguments.name)}")
    return 0


def _cancel(kind: Kind, arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        found = kind.cancel(api, arguments.name)
    if kind.is_final(found):
        print(f"{kind.noun} {arguments.name} has ended already: {kind.state_of(found)}")
    else:
        print(f"asked {kind.noun} {arguments.name} to end")
    return 0


def _delete(kind: Kind, arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        kind.delete(api, arguments.name)
    print(f"deleted {arguments.name}")
    return 0


def print_table(table: resources.Table) -> int:
    """Prints rows under headings."""
    shown = RichTable(box=None, pad_edge=False)
    for heading in table.headings:
        shown.add_column(heading, no_wrap=True)
    for row in table.rows:
        shown.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(shown)
    return 0


def print_json(value: Any) -> int:
    """Prints a value as indented JSON."""
    print(json.dumps(value, indent=2))
    return 0
