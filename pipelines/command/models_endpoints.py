"""`trainyard models|endpoints`: look at single resources, and change them."""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from components.endpoint.traffic import WHOLE
from components.vertex.api import VertexApi, connect
from pipelines import resources
from pipelines.command.target_options import add_target, service_of, target_of
from pipelines.kinds import Kind
from pipelines.serving import releases

LEAST_NAME, LEAST_NOTE = 24, 11  # columns
PIPE_WIDTH = 500  # nothing is cut for a program that reads it


def add_models(commands: Any) -> Any:
    """Adds the group `models` and its actions but `upload`; returns the group."""
    text = "models and their versions: list, show, upload, set-default, rollback, delete"
    actions = group_of(commands, "models", text)
    add_action(actions, "list", _models_list, "all models with their versions")
    add_action(actions, "show", _models_show, "one model, or MODEL@VERSION", "MODEL")
    text = (
        "give MODEL@VERSION the alias default; what endpoints serve stays (rollback and "
        "endpoints deploy change that)"
    )
    add_action(actions, "set-default", _models_set_default, text, "MODEL@VERSION")
    text = (
        "make the previous version the default again and serve it wherever the default is served, "
        "checked by predictions; everything is as before if the check fails"
    )
    add_machine(add_action(actions, "rollback", _models_rollback, text, "MODEL"))
    text = "a model, or only MODEL@VERSION, which must not be the default"
    delete = add_action(actions, "delete", _models_delete, text, "MODEL")
    delete.add_argument("--all", action="store_true", help="all versions, without asking")
    return actions


def add_endpoints(commands: Any) -> Any:
    """Adds the group `endpoints` and its actions but `predict`; returns the group."""
    text = "prediction endpoints: list, predict, deploy, undeploy, delete"
    actions = group_of(commands, "endpoints", text)
    text = "all endpoints, and the versions that each serves, with their shares of the traffic"
    list_ = add_action(actions, "list", _endpoints_list, text)
    list_.add_argument("--json", action="store_true", help="with the ids of what is deployed")
    _add_deployments(actions)
    add_action(actions, "delete", _endpoints_delete, "undeploy all and delete", "ENDPOINT")
    return actions


def _add_deployments(actions: Any) -> None:
    text = (
        "serve MODEL@VERSION and check its predictions; if they are wrong, the endpoint is left as "
        "it was. Versions that are deployed there already stay"
    )
    deploy = add_action(actions, "deploy", _endpoints_deploy, text, "MODEL@VERSION")
    deploy.add_argument(
        "--traffic",
        type=_percentage,
        default=100,
        metavar="PERCENT",
        help="its share, 0 to 100; the others share the rest as before; default: 100",
    )
    add_machine(deploy)
    text = "stop serving MODEL@VERSION; the others get its traffic"
    undeploy = add_action(actions, "undeploy", _endpoints_undeploy, text, "MODEL@VERSION")
    deploy.add_argument(
        "--endpoint", default="", help="its name; made if there is none; default: the model's name"
    )
    undeploy.add_argument("--endpoint", default="", help="name or id; default: the model's name")


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Adds the machine of a prediction server that has to be started."""
    parser.add_argument(
        "--machine", default="n1-standard-4", help="Vertex AI: machine type; %(default)s"
    )


def _percentage(text: str) -> int:
    if not text.isdecimal() or int(text) > WHOLE:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give 0 to {WHOLE}")
    return int(text)


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


@contextlib.contextmanager
def serving_api_of(arguments: argparse.Namespace) -> Iterator[VertexApi]:
    """The same for what is to be served afterwards: this machine's service stays."""
    target = target_of(arguments, needs_bucket=False)
    with service_of(arguments, target) as service:
        yield connect(target.project, target.location)
        if service:
            service.keep()


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
        with_all = partial(_wants_all, arguments)
        print(f"deleted {resources.delete_model(api, arguments.name, with_all=with_all)}")
    return 0


def _wants_all(arguments: argparse.Namespace, num_versions: int) -> bool:
    """Whether all versions of a model are to go; asked of the person at the terminal."""
    if arguments.all or not sys.stdin.isatty():
        return bool(arguments.all)
    with contextlib.suppress(EOFError):
        answer = input(f"Delete {arguments.name} with its {num_versions} versions? [y/N] ")
        return answer.strip().lower() in ("y", "yes")
    return False


def _models_rollback(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        print("\n".join(releases.roll_back(api, arguments.name, machine=arguments.machine)))
    return 0


def _endpoints_deploy(arguments: argparse.Namespace) -> int:
    with serving_api_of(arguments) as api:
        lines = releases.deploy_version(
            api,
            arguments.name,
            endpoint_name=arguments.endpoint,
            percentage=arguments.traffic,
            machine=arguments.machine,
        )
        print("\n".join(lines))
    return 0


def _endpoints_undeploy(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        lines = releases.take_down(api, arguments.name, endpoint_name=arguments.endpoint)
        print("\n".join(lines))
    return 0


def _endpoints_list(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        found = resources.list_endpoints(api)
    if arguments.json:
        return print_json(found)
    return print_table(resources.endpoints_table(found))


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


def print_table(table: resources.Table, *, is_whole: bool = False) -> int:
    """Prints rows under headings; a long name is folded and a long note cut, unless whole."""
    rows = [table.headings, *table.rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    whole = sum(widths) + 2 * len(widths)  # with the padding of each column
    console = Console(width=whole if is_whole else None if sys.stdout.isatty() else PIPE_WIDTH)
    left = console.width - sum(widths[:-1]) - 2 * len(widths[:-1])
    shown = RichTable(box=None, pad_edge=False)
    shown.add_column(table.headings[0], overflow="fold", min_width=min(widths[0], LEAST_NAME))
    for heading in table.headings[1:-1]:
        shown.add_column(heading, no_wrap=True)
    shown.add_column(table.headings[-1], no_wrap=True, max_width=max(left, LEAST_NOTE))
    for row in table.rows:
        shown.add_row(*map(Text, row))
    console.print(shown)
    return 0


def print_json(value: Any) -> int:
    """Prints a value as indented JSON."""
    print(json.dumps(value, indent=2))
    return 0
