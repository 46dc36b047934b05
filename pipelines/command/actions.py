"""Groups of actions, as in `trainyard models list`, and the output of tables and JSON."""

import argparse
import json
import sys
from functools import partial
from typing import Any

from pipelines.command.target_options import add_target, api_of
from pipelines.resources.kinds import Kind
from pipelines.resources.table import Table

MIN_NAME_WIDTH, MIN_NOTE_WIDTH = 24, 11
NAMES = {"JOB": "its number, its name (the newest of it), or latest", "RUN": "its name, or latest"}
PIPE_WIDTH = 500  # wide enough to cut nothing when another program reads the output


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
    add_action(actions, "cancel", partial(_cancel, kind), text, argument)
    add_action(actions, "delete", delete or partial(_delete, kind), delete_help, argument)


def _cancel(kind: Kind, arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        resource = kind.cancel(api, kind.id_called(api, arguments.name))
    if kind.is_final(resource):
        print(f"{kind.noun} {arguments.name} has ended already: {kind.state_of(resource)}")
    else:
        print(f"requested cancellation of {kind.noun} {arguments.name}")
    return 0


def _delete(kind: Kind, arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        kind.delete(api, kind.id_called(api, arguments.name))
    print(f"deleted {arguments.name}")
    return 0


def print_table(table: Table, *, is_whole: bool = False) -> int:
    """Print rows under headings; fold long names and cut long notes, unless `is_whole`."""
    from rich.cells import cell_len  # 0.05 s, which commands without a table save
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    rows = [table.headings, *table.rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    whole_width = sum(widths) + 2 * len(widths)  # with the padding of each column
    console = Console(
        width=whole_width if is_whole else None if sys.stdout.isatty() else PIPE_WIDTH
    )
    note_width = console.width - sum(widths[:-1]) - 2 * len(widths[:-1])
    shown = RichTable(box=None, pad_edge=False)
    shown.add_column(table.headings[0], overflow="fold", min_width=min(widths[0], MIN_NAME_WIDTH))
    for heading in table.headings[1:-1]:
        shown.add_column(heading, no_wrap=True)
    shown.add_column(table.headings[-1], no_wrap=True, max_width=max(note_width, MIN_NOTE_WIDTH))
    for row in table.rows:
        shown.add_row(*map(Text, row))
    console.print(shown)
    return 0


def print_json(value: Any) -> int:
    """Print a value as indented JSON, with its letters as they are where stdout is UTF-8."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not is_unicode))
    return 0
