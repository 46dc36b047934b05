"""`trainyard endpoints`: list, request predictions from, deploy to, undeploy from and delete."""

import argparse
from pathlib import Path
from typing import Any

from components.endpoint.traffic import WHOLE
from pipelines import resources
from pipelines.command.actions import add_action, describe, group_of, print_json, print_table
from pipelines.command.models import add_machine
from pipelines.command.target_options import api_of
from pipelines.serving import instances, releases

PREDICT = """\
Requests predictions from an endpoint. A large file is sent in several requests.

  trainyard endpoints predict mnist --json-instances digits.jsonl
  head -n 1 digits.jsonl | trainyard endpoints predict mnist --json-instances -
  trainyard endpoints predict mnist --instances request.json
"""


def add_endpoints(commands: Any) -> None:
    """Add the group `endpoints`."""
    text = "prediction endpoints: list, predict, deploy, undeploy, delete"
    actions = group_of(commands, "endpoints", text)
    text = "list all endpoints with the versions they serve and each version's share of the traffic"
    list_ = add_action(actions, "list", _list, text)
    list_.add_argument("--json", action="store_true", help="with the ids of deployed models")
    _add_predict(actions)
    _add_deploy_and_undeploy(actions)
    add_action(actions, "delete", _delete, "undeploy all models and delete", "ENDPOINT")


def _add_predict(actions: Any) -> None:
    predict = add_action(actions, "predict", _predict, "request predictions", "ENDPOINT")
    describe(predict, PREDICT)
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
        help="one JSON instance per line, as for gcloud; - is standard input",
    )
    predict.add_argument(
        "--format",
        choices=("json", "table"),
        help="default: table for --json-instances, JSON for --instances",
    )


def _add_deploy_and_undeploy(actions: Any) -> None:
    text = (
        "serve MODEL@VERSION and check its predictions; if they are wrong, the endpoint is "
        "restored. Versions that are already deployed stay"
    )
    deploy = add_action(actions, "deploy", _deploy, text, "MODEL@VERSION")
    deploy.add_argument(
        "--traffic",
        type=_percentage,
        default=100,
        metavar="PERCENT",
        help="share of the traffic, 0 to 100; the other versions share the rest in their current "
        "proportions; default: 100",
    )
    add_machine(deploy)
    text = "stop serving MODEL@VERSION; the other versions get its traffic"
    undeploy = add_action(actions, "undeploy", _undeploy, text, "MODEL@VERSION")
    deploy.add_argument(
        "--endpoint", default="", help="name; created if missing; default: the model's name"
    )
    undeploy.add_argument("--endpoint", default="", help="name or id; default: the model's name")


def _percentage(text: str) -> int:
    if not text.isdecimal() or int(text) > WHOLE:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give 0 to {WHOLE}")
    return int(text)


def _list(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        found = resources.list_endpoints(api)
    if arguments.json:
        return print_json(found)
    return print_table(resources.endpoints_table(found))


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


def _deploy(arguments: argparse.Namespace) -> int:
    with api_of(arguments, keeps_service=True) as api:
        lines = releases.deploy_version(
            api,
            arguments.name,
            endpoint_name=arguments.endpoint,
            percentage=arguments.traffic,
            machine=arguments.machine,
        )
        print("\n".join(lines))
    return 0


def _undeploy(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        lines = releases.take_down(api, arguments.name, endpoint_name=arguments.endpoint)
        print("\n".join(lines))
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        print(f"deleted {resources.delete_endpoint(api, arguments.name)}")
    return 0
