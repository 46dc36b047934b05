"""`trainyard jobs|models|endpoints`: look at single resources, and change them."""

import argparse
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from components.vertex_api import VertexApi, connect
from pipelines import resources
from pipelines.where import add_target, service_of, target_of


def add_resource_commands(commands: Any) -> None:
    """Adds the three groups of commands."""
    _add_jobs(commands)
    _add_models(commands)
    _add_endpoints(commands)


def _add_jobs(commands: Any) -> None:
    actions = _group(commands, "jobs", "training jobs: list, show, logs, cancel")
    _action(actions, "list", _jobs_list, "all jobs, newest first")
    _action(actions, "show", _jobs_show, "one job as Vertex AI answers it", "JOB_ID")
    logs = _action(actions, "logs", _jobs_logs, "what a job's replicas wrote", "JOB_ID")
    logs.add_argument("--replica", metavar="TASK", help="of one replica, as chief/0 or worker/1")
    _action(actions, "cancel", _jobs_cancel, "end a job", "JOB_ID")


def _add_models(commands: Any) -> None:
    actions = _group(commands, "models", "models and their versions: list, show, delete")
    _action(actions, "list", _models_list, "all models with their versions")
    _action(actions, "show", _models_show, "one model, or MODEL@VERSION", "MODEL")
    _action(actions, "delete", _models_delete, "a model, or only MODEL@VERSION", "MODEL")


def _add_endpoints(commands: Any) -> None:
    actions = _group(commands, "endpoints", "prediction endpoints: list, predict, delete")
    _action(actions, "list", _endpoints_list, "all endpoints and what they serve")
    predict = _action(actions, "predict", _endpoints_predict, "ask for predictions", "ENDPOINT")
    predict.add_argument(
        "--instances", type=Path, required=True, metavar="FILE", help='JSON: {"instances": [...]}'
    )
    _action(actions, "delete", _endpoints_delete, "undeploy all and delete", "ENDPOINT")


def _group(commands: Any, name: str, help_text: str) -> Any:
    group = commands.add_parser(name, help=help_text, description=help_text)
    return group.add_subparsers(required=True, metavar="ACTION")


def _action(
    actions: Any, name: str, command: Any, help_text: str, argument: str = ""
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=help_text, description=help_text
    )
    if argument:
        parser.add_argument("name", metavar=argument)
    add_target(parser)
    parser.set_defaults(command=command)
    return parser


@contextlib.contextmanager
def _api(arguments: argparse.Namespace) -> Iterator[VertexApi]:
    target = target_of(arguments)
    with service_of(arguments, target):
        yield connect(target.project, target.location)


def _jobs_list(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_table(resources.jobs_table(api))


def _jobs_show(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_json(resources.get_job(api, arguments.name))


def _jobs_logs(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        for line in resources.job_log(api, arguments.name, replica=arguments.replica):
            print(line)
    return 0


def _jobs_cancel(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        resources.cancel_job(api, arguments.name)
    print(f"asked job {arguments.name} to end")
    return 0


def _models_list(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_table(resources.models_table(api))


def _models_show(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_json(resources.get_model(api, arguments.name))


def _models_delete(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        print(f"deleted {resources.delete_model(api, arguments.name)}")
    return 0


def _endpoints_list(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_table(resources.endpoints_table(api))


def _endpoints_predict(arguments: argparse.Namespace) -> int:
    instances = resources.read_instances(arguments.instances)
    with _api(arguments) as api:
        return _print_json(resources.predict(api, arguments.name, instances))


def _endpoints_delete(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        print(f"deleted {resources.delete_endpoint(api, arguments.name)}")
    return 0


def _print_table(table: resources.Table) -> int:
    shown = RichTable(*table.headings, box=None, pad_edge=False)
    for row in table.rows:
        shown.add_row(*row)
    Console().print(shown)
    return 0


def _print_json(value: Any) -> int:
    print(json.dumps(value, indent=2))
    return 0
