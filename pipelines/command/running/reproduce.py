"""`trainyard reproduce`: make a model version again from its record, and compare."""

import argparse
import shutil
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from pipelines.command.actions import add_json, describe, print_json
from pipelines.command.output import keep_running_without_output
from pipelines.command.target_options import add_target, api_of, target_of
from pipelines.errors import ResourceError
from pipelines.exit_codes import GATED, OK
from pipelines.places.local_service import service_start
from pipelines.places.target import Target, local_target
from pipelines.provenance.again import DATA_TASK, LAST_TASK, execute, scratch_service
from pipelines.provenance.record import Record, whole_record
from pipelines.provenance.source import Source, find_source
from pipelines.provenance.stages import (
    RAW_FILES,
    Stage,
    agree,
    compare,
    data_stages,
    explanations,
    is_asynchronous,
    model_stages,
)
from pipelines.resources.names import get_version, second, version_text

SCRATCH = "reproduced"
SAME, WITHIN, DIFFERENT = (
    "the same bits",
    "the same within the intervals of its metrics",
    "different",
)
REPRODUCE = """\
Makes a model version again from its record: the run's request, the workload's code and the source
that made it, the raw files. Raw files, examples, statistics, weights, exported model and metrics
are compared, one after the other: the bits are the same, or the first stage that differs is
named, with what is known to explain it. It registers, deploys and changes nothing: everything is
executed in a folder of its own, which stays if something differs.

  trainyard reproduce mnist@3
  trainyard reproduce churn@default --json

exit codes: 0 the same, 3 different, 1 it cannot be made again
"""


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `reproduce`."""
    describe(parser, REPRODUCE)
    parser.add_argument("name", metavar="MODEL@VERSION", help="such as mnist@3, or mnist@default")
    add_json(parser, "print the stages as JSON")
    add_target(parser)
    parser.set_defaults(command=_reproduce)


def _reproduce(arguments: argparse.Namespace) -> int:
    console = Console(stderr=arguments.json, highlight=False, soft_wrap=True)
    with api_of(arguments) as api:
        version = get_version(api, arguments.name)
        record, name = whole_record(api, version), version_text(version)
    summary, state_dir = record.summary, target_of(arguments, needs_bucket=False).state_dir
    target = local_target(state_dir / SCRATCH / f"{name}-{summary.run}")
    if service_start(target.state_dir / "vertex"):
        raise ResourceError(f"{name} is being made again by another command")
    shutil.rmtree(target.state_dir, ignore_errors=True)
    console.print(f"{name}, made by {summary.run} on {second(summary.created)}")
    with console.status(f"looking for {record.source} among the commits"):
        source = find_source(
            record.source, time=summary.created, folder=target.state_dir / "source"
        )
    console.print(f"source: {source.words}")
    try:
        stages, now = _repeat(record, source, target, state_dir=state_dir, console=console)
    except KeyboardInterrupt:
        shutil.rmtree(target.state_dir, ignore_errors=True)
        raise
    result, reasons = _judge(record, now, stages, is_source=source.is_recorded)
    for stage in stages:
        mark = "[green]✓[/]" if stage.is_same else "[red]✗[/]"
        console.print(f"{mark} {stage.name:15}{escape(stage.words)}")
    files = f", files: {target.state_dir}" if result == DIFFERENT else ""
    if not files:
        shutil.rmtree(target.state_dir, ignore_errors=True)
    console.print(f"{name}: {result}{files}")
    for reason in reasons:
        console.print(f"  {escape(reason)}")
    if arguments.json:
        print_json(
            {
                "version": name,
                "run": summary.run,
                "source": source.words,
                "result": result,
                "stages": [*map(vars, stages)],
                "reasons": reasons,
            }
        )
    return GATED if files else OK


def _repeat(
    record: Record, source: Source, target: Target, *, state_dir: Path, console: Console
) -> tuple[list[Stage], Record]:
    """Execute the run again, up to the first of data and model that differs."""
    keep_running_without_output()
    with scratch_service(target, source, state_dir=state_dir) as api:
        now = execute(api, record, until=DATA_TASK, target=target, console=console)
        stages = compare(data_stages(record), data_stages(now))
        if all(stage.is_same for stage in stages):
            now = execute(api, record, until=LAST_TASK, target=target, console=console)
            stages += compare(model_stages(record), model_stages(now))
    return stages, now


def _judge(
    record: Record, now: Record, stages: list[Stage], *, is_source: bool
) -> tuple[str, list[str]]:
    """Return the result, and what is known to explain a difference."""
    differing = [stage.name for stage in stages if not stage.is_same]
    if not differing:
        return SAME, []
    if differing[0] == RAW_FILES:
        return DIFFERENT, []
    is_within = now.digests and is_asynchronous(record) and agree(record, now)
    reasons = explanations(record, now, is_source=is_source)
    return WITHIN if is_within else DIFFERENT, reasons
