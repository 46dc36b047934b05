"""`trainyard settings`: the settings of a workload's runs, with their values and meanings."""

import argparse
import dataclasses
import shutil
import textwrap
from collections.abc import Iterator
from typing import Any

from components.run_result.settings import settings_in
from pipelines.command.actions import add_json, print_json
from pipelines.command.actions import describe as set_description
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import declared_settings, setting_keys
from pipelines.exit_codes import OK
from pipelines.projects.description import describe
from pipelines.projects.runs import FORMS, find_run
from trainer.config.settings import describe_allowed, limits_of
from trainer.workloads.declarations.model_settings import as_text

SETTINGS = """\
Lists the settings of a workload's runs with their values: KEY = VALUE as in `--set KEY=VALUE`, or
in groups in run.yaml.

  trainyard settings mnist
  trainyard settings churn/ --all
"""
INDENT = "    "


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `settings`."""
    set_description(parser, SETTINGS)
    parser.add_argument("workload", metavar="WORKLOAD", nargs="?", default="mnist", help=FORMS)
    parser.add_argument("--all", action="store_true", help="include advanced settings")
    add_json(parser, "all settings by their keys, as JSON")
    parser.set_defaults(command=_settings)


def _settings(arguments: argparse.Namespace) -> int:
    config = find_run(arguments.workload)
    if arguments.json:
        return print_json(settings_in(config.parameters()))
    for line in _lines(config, has_all=arguments.all):
        print(line)
    return OK


def _lines(config: RunConfig, *, has_all: bool) -> Iterator[str]:
    width = shutil.get_terminal_size().columns
    num_left_out = 0
    fields = declared_settings()
    for key in setting_keys(config):
        field = fields.get(key)
        if field is None or "limits" not in field.metadata:
            continue
        if limits_of(field).is_advanced and not has_all:
            num_left_out += 1
            continue
        yield f"{key} = {_value(config, key, field)}"
        text = f"{limits_of(field).help}:{describe_allowed(field, None)}".replace("it must be ", "")
        yield textwrap.fill(text, width, initial_indent=INDENT, subsequent_indent=INDENT)
    for name, setting in describe(config)["settings"].items():
        value = config.train.get(f"model.{name}", setting["default"])
        yield f"model.{name} = {as_text(value)}\n{INDENT}of the model; type {setting['type']}"
    for name, value in config.thresholds.items():
        yield f"thresholds.{name} = {as_text(value)}"
    yield "thresholds.METRIC, labels.NAME"
    if num_left_out:
        yield f"{num_left_out} advanced settings: --all"


def _value(config: RunConfig, key: str, field: dataclasses.Field[Any]) -> str:
    group, _, name = key.rpartition(".")
    values: Any = getattr(config, group) if group else config
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    value = values.get(name, default) if isinstance(values, dict) else getattr(values, name)
    return "" if value is None or value is dataclasses.MISSING else as_text(value)
