"""`trainyard endpoints`: list, predict, deploy, log, undeploy, watch and delete."""

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from components.endpoint.deployments import delete_endpoint
from components.endpoint.traffic import WHOLE
from components.shared.vertex.api import VertexApi
from pipelines.command.actions import (
    actions_of,
    add_action,
    add_json,
    describe,
    listing,
    print_json,
    print_table,
)
from pipelines.command.target_options import api_of, with_api
from pipelines.exit_codes import FAILED, GATED, OK, USAGE, exit_codes_text
from pipelines.resources.endpoints import endpoints_table, list_endpoints, log_requests
from pipelines.resources.names import endpoint_of
from pipelines.resources.table import TextTable
from pipelines.serving import instances, releases
from trainer import Json
from trainer.errors import ConfigError
from trainer.runtime.processes import ending_with_parent

PREDICT = """\
Requests predictions from an endpoint. A large file is sent in several requests.

  trainyard endpoints predict mnist --json-instances digits.jsonl
  head -n 1 digits.jsonl | trainyard endpoints predict mnist --json-instances -
  trainyard endpoints predict mnist --instances request.json
"""
WATCH_TIMEOUT_SECONDS = 600
WATCH_HEADINGS = ("FEATURE", "AGAINST", "DISTANCE", "LIMIT", "VERDICT", "CHANGE")
WATCH = f"""\
Compares the last logged requests of an endpoint with the data that its model has learnt from (skew)
and with as many requests before them (drift). Each feature is shown with its largest distance, the
limit and the value whose share changed most. The limit is the threshold, or more if so few requests
differ by more by chance.

  trainyard endpoints watch taxi
  trainyard endpoints watch taxi --last 5000 --threshold psi=0.2

{exit_codes_text(OK, FAILED, USAGE)}, {GATED} a feature has changed
"""


def add_endpoints(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `endpoints`."""
    actions = actions_of(parser)
    text = "list all endpoints with the versions they serve and each version's share of the traffic"
    command = listing(
        lambda api, _: list_endpoints(api),
        lambda endpoints: print_table(endpoints_table(endpoints)),
        noun="endpoints",
    )
    list_ = add_action(actions, "list", command, text)
    add_json(list_, "with the ids and machines of deployed models")
    _add_predict(actions)
    _add_deploy_and_undeploy(actions)
    _add_log_requests(actions)
    _add_watch(actions)
    add_action(actions, "delete", with_api(_delete), "undeploy all models and delete", "ENDPOINT")


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
    deploy.add_argument(
        "--serving",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change of the run's settings, as max_replicas=5; default: the endpoint's machines",
    )
    text = "stop serving MODEL@VERSION; the other versions get its traffic"
    undeploy = add_action(actions, "undeploy", with_api(_undeploy), text, "MODEL@VERSION")
    deploy.add_argument(
        "--endpoint", default="", help="name; created if missing; default: the model's name"
    )
    undeploy.add_argument("--endpoint", default="", help="name or id; default: the model's name")


def _add_log_requests(actions: Any) -> None:
    text = "log a share of the requests and responses, or stop logging; the log stays"
    log = add_action(actions, "log-requests", with_api(_log_requests), text, "ENDPOINT")
    log.add_argument(
        "--rate",
        type=_rate,
        required=True,
        help="share of the requests, above 0 and at most 1, such as 0.1; or off",
    )
    log.add_argument(
        "--table",
        default="",
        metavar="bq://PROJECT.DATASET.TABLE",
        help="BigQuery table that Vertex AI writes to; default: it creates one. A service on this "
        "machine writes to files of its own",
    )


def _rate(text: str) -> float:
    try:
        rate = 0.0 if text == "off" else float(text)
    except ValueError:
        rate = -1.0
    if not (0 < rate <= 1 or text == "off"):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give 0.1, up to 1, or off")
    return rate


def _percentage(text: str) -> int:
    if not text.isdecimal() or int(text) > WHOLE:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give 0 to {WHOLE}")
    return int(text)


def _predict(arguments: argparse.Namespace) -> int:
    if arguments.json_instances:
        rows = instances.read_lines(arguments.json_instances)
    else:
        rows = instances.read_document(arguments.instances)
    with api_of(arguments) as api:
        predictions = instances.predict(api, arguments.name, rows)
    is_table = bool(arguments.json_instances)
    if arguments.format:
        is_table = arguments.format == "table"
    if is_table:
        return print_table(instances.predictions_table(predictions))
    return print_json(predictions)


def _deploy(arguments: argparse.Namespace) -> int:
    from pipelines.config.settings import with_settings
    from pipelines.projects.runs import default_run

    texts = [f"serving.{text}" for text in arguments.serving]
    serving = with_settings(default_run("-", name="-"), texts).serving.given()
    with api_of(arguments, keeps_service=True) as api:
        lines = releases.deploy_version(
            api,
            arguments.name,
            endpoint_name=arguments.endpoint,
            percentage=arguments.traffic,
            serving=serving,
        )
        print("\n".join(lines))
    return 0


def _undeploy(api: VertexApi, arguments: argparse.Namespace) -> None:
    lines = releases.take_down(api, arguments.name, endpoint_name=arguments.endpoint)
    print("\n".join(lines))


def _log_requests(api: VertexApi, arguments: argparse.Namespace) -> None:
    rate, table = arguments.rate, arguments.table
    endpoint = log_requests(api, arguments.name, rate=rate, table=table)
    share = f"{100 * rate:.4g} % of its" if 0 < rate < 1 else "all" if rate else "no"
    print(f"{endpoint} logs {share} requests")


def _delete(api: VertexApi, arguments: argparse.Namespace) -> None:
    endpoint = endpoint_of(api, arguments.name)
    delete_endpoint(api, endpoint)
    print(f"deleted {endpoint['displayName']}")


def _add_watch(actions: Any) -> None:
    text = "compare the logged requests with the training data and with earlier requests"
    watch = add_action(actions, "watch", _watch, text, "ENDPOINT")
    describe(watch, WATCH)
    watch.add_argument("--last", type=int, metavar="N", help="requests to compare; 1000")
    watch.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="DISTANCE=VALUE",
        dest="thresholds",
        help="psi or pixels; may be repeated",
    )
    add_json(watch, "print the result as JSON")


def _watch(arguments: argparse.Namespace) -> int:
    options: Json = {"thresholds": dict(map(_threshold, arguments.thresholds))}
    if arguments.last is not None:
        options["last"] = arguments.last
    with api_of(arguments) as api:
        # A process of its own: a model's workload may be code of the user.
        words = (api.project, api.location, arguments.name, json.dumps(options))
        command = ending_with_parent("components.endpoint.watch", *words)
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, timeout=WATCH_TIMEOUT_SECONDS
        )
    if done.stdout:
        show = print_json if arguments.json else _show_watch
        show(json.loads(done.stdout))
    return done.returncode


def _threshold(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ConfigError(
            f"--threshold is {text!r}; write DISTANCE=VALUE, such as psi=0.2"
        ) from None


def _show_watch(result: Json) -> None:
    rows = [
        (
            found["feature"],
            found["against"],
            f"{found['distance']} {found['value']:.3f}",
            f"{found['limit']:.3g}",
            found["verdict"],
            found["words"],
        )
        for found in result["findings"]
    ]
    if rows:
        print_table(TextTable(WATCH_HEADINGS, rows))
    for note in result["notes"]:
        print(f"note: {note}")
    when = f", {result['first']} to {result['last']}" if result["first"] else ""
    verdict = str(result["verdict"]).replace("too-few", "too few requests to compare")
    print(f"{result['endpoint']}: {verdict} ({result['num_instances']:,} instances{when})")
    if result["verdict"] == "alert":
        print(result["words"])
