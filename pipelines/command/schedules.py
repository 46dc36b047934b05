"""`trainyard schedule`: recurring pipeline runs."""

import argparse
import datetime
from functools import partial
from operator import itemgetter
from pathlib import Path

from components.run_result.summary import Summary
from components.shared.vertex.api import VertexApi
from pipelines.command.actions import (
    actions_of,
    add_action,
    add_json,
    describe,
    listing,
    print_json,
)
from pipelines.command.output import add_output, with_result
from pipelines.command.running.execution import start_run
from pipelines.command.target_options import service_of, target_of, with_api
from pipelines.package.spec import Package
from pipelines.resources.names import when
from pipelines.runs.facts import newest_runs
from pipelines.runs.output.tables import schedule_facts, schedule_lines
from pipelines.runs.request import new_run_name, warn_of_readable_address
from pipelines.runs.submit import Submission
from pipelines.schedules import differences as schedules
from pipelines.schedules.differences import Change
from pipelines.schedules.file import read_schedules
from pipelines.schedules.plan import REQUEST, next_runs, plan_schedule
from trainer import Json
from trainer.errors import ConfigError

DEFAULT_FOLDER = Path("configs/schedules")
WORDS = {  # by action: a mark, and what was done
    "create": ("+", "created"),
    "change": ("~", "changed"),
    "delete": ("-", "deleted"),
    "keep": ("=", "unchanged"),
}
APPLY = """\
Makes the schedules match the files of a folder (configs/schedules): creates and changes schedules,
and deletes those without a file. Schedules that were created in other ways are not touched. A
paused schedule stays paused if its file does not say `paused`. Every file is checked before
anything is sent.

  trainyard schedule apply --dry-run
  trainyard schedule apply --on vertex --project P --pipeline-root gs://BUCKET/runs --image IMAGE
"""
LOCAL_NOTE = """\
On this machine schedules run only while the service runs, for example as started by:
  {command}
Runs missed in the meantime are skipped, or caught up if the file says catch_up: true."""


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `schedule`."""
    actions = actions_of(parser)
    apply = add_action(actions, "apply", _apply, "make the schedules match a folder's files")
    describe(apply, APPLY)
    apply.add_argument(
        "folder", nargs="?", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="%(default)s"
    )
    apply.add_argument("--dry-run", action="store_true", help="only print the changes")
    add_json(apply, "the changes as JSON")
    apply.add_argument("--image", help="container image; default: named by a digest of the source")
    apply.add_argument("--data-dir", metavar="DIR", help="folder with raw data, or gs://")
    command = listing(
        _list,
        lambda pairs: print("\n".join(schedule_lines(pairs))),
        noun="schedules",
        facts=lambda pair: schedule_facts(*pair),
    )
    list_ = add_action(actions, "list", command, "list all schedules with their last and next run")
    add_json(list_, "include the summary of the last run")
    add_action(
        actions,
        "pause",
        with_api(_pause),
        "start no runs until the schedule is resumed",
        "SCHEDULE",
    )
    add_action(actions, "resume", with_api(_resume), "start runs again", "SCHEDULE")
    start = partial(with_result, _run_now)
    now = add_action(actions, "run-now", start, "start a run of the schedule now", "SCHEDULE")
    add_output(now)
    now.add_argument("--wait", action="store_true", help="wait until the run has ended")
    now.set_defaults(tears_down=False)
    text = "delete a schedule; its runs continue, and `apply` creates it again if its file exists"
    add_action(actions, "delete", with_api(_delete), text, "SCHEDULE")


def _apply(arguments: argparse.Namespace) -> None:
    target = target_of(arguments)
    files = read_schedules(arguments.folder)
    wanted, problems = [], list[str]()
    for file in files:
        try:
            wanted.append(plan_schedule(file, target=target, image=arguments.image))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    for schedule in wanted:
        warn_of_readable_address(schedule.body[REQUEST]["pipelineJob"])
    with service_of(arguments, target, makes_state=True) as service:
        api = target.connect()
        now = datetime.datetime.now(datetime.UTC)
        changes = schedules.differences(wanted, schedules.ours(api), now=now)
        for change in changes:
            if not arguments.dry_run:
                schedules.apply_change(api, change)
            if arguments.json:
                continue
            print(_line(change, is_done=not arguments.dry_run), flush=True)
            if arguments.dry_run and change.wanted:
                print(f"    next runs: {', '.join(next_runs(change.wanted, now=now))}")
        if arguments.json:
            print_json([_facts(change, now=now) for change in changes])
        elif arguments.dry_run:
            print("nothing was changed (--dry-run)")
        elif service:
            print(LOCAL_NOTE.format(command=_serve_command(target.state_dir)))


def _facts(change: Change, *, now: datetime.datetime) -> Json:
    """Return a change as JSON, with the times of the next runs."""
    times = next_runs(change.wanted, now=now) if change.wanted else []
    return {
        "schedule": change.name,
        "action": change.action,
        "detail": change.detail,
        "next_runs": times,
    }


def _serve_command(state_dir: Path) -> str:
    if state_dir == Path(".trainyard").absolute() and Path("Makefile").is_file():
        return "make console"
    return f"vertex-local serve --root {state_dir / 'vertex'}"


def _line(change: Change, *, is_done: bool) -> str:
    mark, word = WORDS[change.action]
    future = "" if is_done or change.action == "keep" else "to be "
    return f"{mark} {change.name}: {future}{word} ({change.detail})"


def _list(api: VertexApi, _: argparse.Namespace) -> list[tuple[Json, Summary | None]]:
    existing = sorted(schedules.ours(api), key=itemgetter("displayName"))
    last = [newest_runs(api, limit=1, schedule=body["displayName"]) for body in existing]
    return [(body, next(iter(runs), None)) for body, runs in zip(existing, last, strict=True)]


def _pause(api: VertexApi, arguments: argparse.Namespace) -> None:
    schedules.pause(api, schedules.find(api, arguments.name))
    print(f"paused {arguments.name}; runs that have started continue")


def _resume(api: VertexApi, arguments: argparse.Namespace) -> None:
    schedule = schedules.find(api, arguments.name)
    schedules.resume(api, schedule, catch_up=bool(schedule.get("catchUp")))
    schedule = schedules.find(api, arguments.name)
    print(f"resumed {arguments.name}; next run {when(schedule, 'nextRunTime') or '-'} UTC")


def _run_now(arguments: argparse.Namespace) -> int:
    target = target_of(arguments, needs_bucket=False)
    run = new_run_name(arguments.name)
    with service_of(arguments, target) as service:
        api = target.connect()
        request = schedules.run_request_of(schedules.find(api, arguments.name), run=run)
        package = Package(source=arguments.name, text="", spec=request["pipelineSpec"])
        submission = Submission(run=run, package=package, config=None, request=request)
        return start_run(arguments, submission, target=target, service=service)


def _delete(api: VertexApi, arguments: argparse.Namespace) -> None:
    schedules.delete(api, schedules.find(api, arguments.name))
    print(f"deleted {arguments.name}")
