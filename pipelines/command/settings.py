"""`trainyard settings`: the settings of a workload's runs, with their values and meanings."""

import argparse
import shutil
import textwrap
from collections.abc import Iterator
from typing import Any

from components.run_result.settings import settings_in
from pipelines.command.actions import add_json, print_json
from pipelines.command.actions import describe as set_description
from pipelines.config.editor_schemas import CLUSTER, RUN, SCHEDULE, editor_schema
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import declared_settings
from pipelines.exit_codes import OK
from pipelines.projects.description import describe
from pipelines.projects.runs import FORMS, find_run
from trainer.config.settings import allowed
from trainer.workloads.declarations.model_settings import as_text

SETTINGS = """\
Lists settings of a workload's runs with their values: KEY = VALUE as in `--set KEY=VALUE`, or in
groups in run.yaml. Without --all, those that the workload changes, and those that people change.

  trainyard settings mnist
  trainyard settings mnist --all
  trainyard settings churn/
"""
INDENT = "    "
USUAL = [
    "max_examples",
    "keep_endpoint",
    "prepare.files",
    "gate.min_gain",
    "release.approval",
    "train.epochs",
    "train.optimizer",
    "train.batch_size",
    "train.learning_rate",
    "train.patience",
    "train.seed",
    "cluster.strategy",
    "cluster.workers",
    "cluster.spot",
]


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `settings`."""
    set_description(parser, SETTINGS)
    parser.add_argument("workload", metavar="WORKLOAD", nargs="?", default="mnist", help=FORMS)
    parser.add_argument("--all", action="store_true", help="list all settings")
    form = parser.add_mutually_exclusive_group()
    add_json(form, "all settings by their keys, as JSON")
    form.add_argument(
        "--schema",
        choices=(RUN, CLUSTER, SCHEDULE),
        help="the JSON schema of run.yaml, cluster files or schedules, for editors",
    )
    parser.set_defaults(command=_settings)


def _settings(arguments: argparse.Namespace) -> int:
    if arguments.schema:
        return print_json(editor_schema(arguments.schema))
    config = find_run(arguments.workload)
    if arguments.json:
        return print_json(settings_in(config.parameters()))
    for line in _lines(config, has_all=arguments.all):
        print(line)
    return OK


def _lines(config: RunConfig, *, has_all: bool) -> Iterator[str]:
    width = shutil.get_terminal_size().columns
    given = settings_in(config.parameters())
    num_left_out = 0
    for key, schema in declared_settings().items():
        default = _text(schema.get("default"))
        value = _text(given[key]) if key in given else default
        if not has_all and value == default and key not in USUAL:
            num_left_out += 1
            continue
        yield f"{key} = {value}"
        text = f"{schema['description']}: {allowed(schema)}".replace("it must be ", "")
        yield textwrap.fill(text, width, initial_indent=INDENT, subsequent_indent=INDENT)
    for name, setting in describe(config)["settings"].items():
        value = given.get(f"model.{name}", setting["default"])
        yield f"model.{name} = {_text(value)}\n{INDENT}of the model; type {setting['type']}"
    for name, value in config.thresholds.items():
        yield f"thresholds.{name} = {_text(value)}"
    yield "thresholds.METRIC, labels.NAME"
    if num_left_out:
        yield f"{num_left_out} more settings have their defaults: --all lists them"


def _text(value: Any) -> str:
    return "" if value is None else as_text(value)
