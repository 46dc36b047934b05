"""`trainyard schedule`: pipeline runs by the clock."""

import argparse
import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from components.vertex.api import connect
from pipelines.command.models_endpoints import add_action, api_of, print_json
from pipelines.command.runs import leave, tell_end
from pipelines.command.target_options import service_of, target_of
from pipelines.resources import when
from pipelines.runs.execute import new_run_name, show_run, summary_of
from pipelines.runs.facts import newest_runs
from pipelines.runs.on_failure import add_on_failure, check_command
from pipelines.runs.request import console_url, create_run
from pipelines.runs.tables import schedule_facts, schedule_lines
from pipelines.runs.view import leaf_tasks
from pipelines.schedules import differences as schedules
from pipelines.schedules.differences import Change
from pipelines.schedules.file import read_schedules

DEFAULT_FOLDER = Path("configs/schedules")
MARKS = {"create": "+", "delete": "-", "keep": "="}
DONE = {
    "create": "created",
    "update": "changed",
    "replace": "replaced",
    "delete": "deleted",
    "pause": "paused",
    "resume": "resumed",
    "catch-up": "changed",
    "keep": "as it is",
}
APPLY = """\
Makes schedules equal to the files of a folder (configs/schedules): creates, changes or replaces,
pauses or resumes, and deletes those whose file is gone. Only schedules made this way are touched.
Every file is checked before anything is sent.

  trainyard schedule apply --dry-run
  trainyard schedule apply --on vertex --project P --pipeline-root gs://BUCKET/runs --image IMAGE
"""
HERE = """\
On this machine schedules run only while a service stays, as this one does:
  {command}
What is missed meanwhile is left out, or made up for where the file says catch_up: true."""


def add_schedule_commands(commands: Any) -> None:
    """Adds the group `schedule`."""
    text = "pipeline runs by the clock: apply, list, pause, resume, run-now, delete"
    actions = commands.add_parser("schedule", help=text, description=text).add_subparsers(
        required=True, metavar="ACTION"
    )
    apply = add_action(actions, "apply", _apply, "make schedules equal to a folder's files")
    apply.description = APPLY
    apply.formatter_class = argparse.RawDescriptionHelpFormatter
    apply.add_argument(
        "folder", nargs="?", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="%(default)s"
    )
    apply.add_argument("--dry-run", action="store_true", help="only print the difference")
    apply.add_argument("--image", help="container image; default: named by a digest of the source")
    apply.add_argument("--data-dir", metavar="DIR", help="folder with raw data, or gs://")
    list_ = add_action(
        actions, "list", _list, "all schedules: how the last run ended, and the next"
    )
    list_.add_argument("--json", action="store_true", help="with all facts of the last run")
    add_action(actions, "pause", _pause, "start no more runs until it is resumed", "NAME")
    resume = add_action(actions, "resume", _resume, "start runs again", "NAME")
    resume.add_argument(
        "--catch-up",
        action=argparse.BooleanOptionalAction,
        help="make up for what was missed; default: as the schedule does",
    )
    now = add_action(actions, "run-now", _run_now, "start a run of it at once", "NAME")
    now.add_argument("--wait", action="store_true", help="until the run has ended")
    add_on_failure(now)
    text = "delete it; runs that have begun go on, and `apply` brings it back if its file is there"
    add_action(actions, "delete", _delete, text, "NAME")


def _apply(arguments: argparse.Namespace) -> int:
    target = target_of(arguments)
    files = read_schedules(arguments.folder)
    wanted = [schedules.plan_schedule(one, target=target, image=arguments.image) for one in files]
    with service_of(arguments, target) as service:
        api = connect(target.project, target.location)
        now = datetime.datetime.now(datetime.UTC)
        changes = schedules.differences(wanted, schedules.ours(api), now=now)
        for change in changes:
            if not arguments.dry_run:
                schedules.apply_change(api, change)
            print("\n".join(_told(change, is_done=not arguments.dry_run)), flush=True)
        if arguments.dry_run:
            print("nothing was changed (--dry-run)")
        elif service:
            print(HERE.format(command=_serve(target.state_dir)))
    return 0


def _serve(state_dir: Path) -> str:
    """The command that runs schedules on this machine."""
    if state_dir == Path(".trainyard").absolute() and Path("Makefile").is_file():
        return "make console"
    return f"vertex-local serve --root {state_dir / 'vertex'}"


def _told(change: Change, *, is_done: bool) -> list[str]:
    """What is done about a schedule, and why."""
    word = DONE[change.action]
    if not is_done and change.action != "keep":
        word = f"to be {word}"
    cron = change.wanted.body["cron"] if change.wanted else ""
    head = f"{MARKS.get(change.action, '~')} {change.name}: {word}"
    return [f"{head} ({cron})" if cron else head, *(f"    {one}" for one in change.reasons)]


def _list(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        there = sorted(schedules.ours(api), key=lambda one: str(one["displayName"]))
        last = [newest_runs(api, limit=1, schedule=one["displayName"]) for one in there]
    found = [(one, runs[0] if runs else None) for one, runs in zip(there, last, strict=True)]
    if arguments.json:
        return print_json([schedule_facts(*one) for one in found])
    print("\n".join(schedule_lines(found)))
    return 0


def _pause(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        schedules.pause(api, schedules.find(api, arguments.name))
    print(f"paused {arguments.name}; runs that have begun go on")
    return 0


def _resume(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        schedule = schedules.find(api, arguments.name)
        catch_up = arguments.catch_up
        if catch_up is None:
            catch_up = bool(schedule.get("catchUp"))
        schedules.resume(api, schedule, catch_up=catch_up)
        found = schedules.find(api, arguments.name)
    print(f"resumed {arguments.name}; next run {when(found, 'nextRunTime') or '-'} UTC")
    return 0


def _run_now(arguments: argparse.Namespace) -> int:
    check_command(arguments.on_failure, is_waiting=arguments.wait)
    target = target_of(arguments, needs_bucket=False)
    run = new_run_name(arguments.name)
    with service_of(arguments, target) as service:
        api = connect(target.project, target.location)
        request = schedules.run_request_of(schedules.find(api, arguments.name), run=run)
        create_run(api, request, run=run)
        print(f"{run}\npage: {console_url(api, run)}", flush=True)
        if arguments.wait:
            names = leaf_tasks(request["pipelineSpec"])
            view = show_run(api, run=run, task_names=names, console=Console())
            summary = summary_of(view, request, run=run)
            return tell_end(summary, target, on_failure=arguments.on_failure)
        if service:
            leave(service, run, target)
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        schedules.delete(api, schedules.find(api, arguments.name))
    print(f"deleted {arguments.name}")
    return 0
