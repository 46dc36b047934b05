"""Groups of actions, as in `trainyard models list`, and the output of tables and JSON."""

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from components.shared.vertex.api import VertexApi
from pipelines.command.target_options import add_target, with_api
from pipelines.resources.kinds import Kind
from pipelines.resources.table import TextTable, table_lines

NAMES = {"JOB": "its number, its name (the newest of it), or latest", "RUN": "its name, or latest"}


def actions_of(parser: argparse.ArgumentParser) -> Any:
    """Return the subparsers of a command with actions, such as `trainyard models`."""
    return parser.add_subparsers(required=True, metavar="ACTION")


def add_action(
    actions: Any, name: str, command: Any, help_text: str, argument: str = ""
) -> argparse.ArgumentParser:
    """Add an action with an optional positional argument and the target's options."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=help_text, description=help_text
    )
    if argument:
        parser.add_argument("name", metavar=argument, help=NAMES.get(argument))
    add_target(parser)
    parser.set_defaults(command=command)
    return parser


def describe(parser: argparse.ArgumentParser, description: str) -> None:
    """Set a description whose line breaks are kept."""
    parser.description = description
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def add_cancel_and_delete(
    actions: Any, kind: Kind, argument: str, *, delete_help: str, delete: Any = None
) -> None:
    """Add the actions `cancel` and `delete` of a kind of long-running resource."""
    text = f"cancel a {kind.noun}; does nothing if it has ended"
    add_action(actions, "cancel", with_api(partial(_cancel, kind)), text, argument)
    delete = delete or with_api(partial(_delete, kind))
    add_action(actions, "delete", delete, delete_help, argument)


def _cancel(kind: Kind, api: VertexApi, arguments: argparse.Namespace) -> None:
    resource = kind.cancel(api, kind.id_called(api, arguments.name))
    if kind.is_final(resource):
        print(f"{kind.noun} {arguments.name} has ended already: {kind.state_of(resource)}")
    else:
        print(f"requested cancellation of {kind.noun} {arguments.name}")


def _delete(kind: Kind, api: VertexApi, arguments: argparse.Namespace) -> None:
    kind.delete(api, kind.id_called(api, arguments.name))
    print(f"deleted {arguments.name}")


def print_table(table: TextTable) -> int:
    """Print rows under headings, as wide as the terminal, or uncut for another program."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    print("\n".join(table_lines(table, width=width)))
    return 0


def add_json(
    parser: argparse._ActionsContainer, help_text: str = "as Vertex AI returns it"
) -> None:
    """Add the option --json."""
    parser.add_argument("--json", action="store_true", help=help_text)


def listing(
    fetch: Callable[[VertexApi], Any], table: Callable[[Any], TextTable]
) -> Callable[[argparse.Namespace], int | None]:
    """Return the command that prints what it fetches as a table, or with --json as it is."""

    def command(api: VertexApi, arguments: argparse.Namespace) -> int:
        fetched = fetch(api)
        return print_json(fetched) if arguments.json else print_table(table(fetched))

    return with_api(command)


def print_json(value: Any) -> int:
    """Print a value as indented JSON, with its letters as they are where stdout is UTF-8."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not is_unicode))
    return 0
