"""Groups of actions, as in `trainyard models list`, and the output of tables and JSON."""

import argparse
import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL, label_of
from pipelines.command.target_options import add_target, api_of, has_state, with_api
from pipelines.errors import ResourceError
from pipelines.resources.kinds import JOB, LATEST, Kind
from pipelines.resources.names import short_name
from pipelines.resources.table import TextTable, table_lines
from trainer import Json

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
    meant = chosen(kind, api, arguments.name, verb="cancel")
    resource = kind.cancel(api, short_name(meant["name"]))
    if kind.is_final(resource):
        print(f"{kind.described(resource)} has ended already: {kind.state_of(resource)}")
    else:
        print(f"requested cancellation of {kind.described(resource)}")


def _delete(kind: Kind, api: VertexApi, arguments: argparse.Namespace) -> None:
    meant = chosen(kind, api, arguments.name, verb="delete")
    kind.delete(api, short_name(meant["name"]))
    print(f"deleted {kind.described(meant)}")


def chosen(kind: Kind, api: VertexApi, name: str, *, verb: str) -> Json:
    """Return the resource that a command changes; ask at a terminal which one `latest` means.

    Raises:
        ResourceError: it is not meant, or `latest` is the training job of a pipeline run.
    """
    resource = kind.get(api, name)
    if name != LATEST:
        return resource
    what, run = kind.described(resource), label_of(resource, RUN_LABEL)
    if kind is JOB and run and verb != "upload":
        raise ResourceError(
            f"latest is {what}; to {verb} the run: trainyard runs {verb} {run}, or only its job:"
            f" give {short_name(resource['name'])}"
        )
    if sys.stdin.isatty() and not confirmed(f"{verb.capitalize()} {what}?"):
        raise ResourceError("nothing was changed")
    return resource


def confirmed(question: str) -> bool:
    """Ask at a terminal, and return whether the reply is yes; False without a terminal."""
    with contextlib.suppress(EOFError):
        is_asked = sys.stdin.isatty()
        return is_asked and input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    return False


def print_table(table: TextTable) -> int:
    """Print rows under headings, as wide as the terminal, or uncut for another program."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    print("\n".join(table_lines(table, width=width)))
    return 0


def add_set(
    parser: argparse.ArgumentParser,
    text: str = "change a setting, e.g. train.epochs=5, cluster.spot=true or labels.team=vision; "
    "may be repeated; `trainyard settings --all` lists them",
    metavar: str = "KEY=VALUE",
) -> None:
    """Add the option `--set`, which may be repeated."""
    parser.add_argument(
        "--set", metavar=metavar, action="append", default=[], dest="settings", help=text
    )


def add_json(
    parser: argparse._ActionsContainer, help_text: str = "as Vertex AI returns it"
) -> None:
    """Add the option --json."""
    parser.add_argument("--json", action="store_true", help=help_text)


def listing(
    fetch: Callable[[VertexApi, argparse.Namespace], Sequence[Any]],
    show: Callable[[Any], object],
    *,
    noun: str,
    facts: Callable[[Any], Any] = lambda each: each,
) -> Callable[[argparse.Namespace], int]:
    """Return the command that fetches resources and shows them, or with --json their facts.

    Where nothing was run yet it says so, and starts no service.
    """

    def command(arguments: argparse.Namespace) -> int:
        fetched: Sequence[Any] = ()
        if has_state(arguments):
            with api_of(arguments) as api:
                fetched = fetch(api, arguments)
        if arguments.json:
            return print_json([facts(each) for each in fetched])
        if fetched:
            show(fetched)
        else:
            print(f"no {noun} yet")
        return 0

    return command


def print_json(value: Any) -> int:
    """Print a value as indented JSON, with its letters as they are where stdout is UTF-8."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not is_unicode))
    return 0
