"""`trainyard step`: execute one task of an earlier run again, on this machine."""

import argparse
import contextlib
import datetime
import time
from pathlib import Path

from components.errors import StepError
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import STEP_LABEL
from components.shared.vertex.task_details import details_by_name, outputs_of
from pipelines.command.actions import NAMES, add_json, add_set, describe, print_json, print_table
from pipelines.command.target_options import add_target, api_of, target_of
from pipelines.plan.one_task import TASKS, plan_task
from pipelines.resources.kinds import RUN
from pipelines.resources.names import short_name
from pipelines.resources.table import TextTable
from pipelines.runs.differences import Difference, difference_row
from pipelines.runs.request import create_run
from pipelines.runs.submit import Submission
from pipelines.runs.view import run_log_lines
from trainer import Json
from trainer.errors import ConfigError

HEADINGS = ("OUTPUT", "BEFORE", "NOW", "CHANGE")
POLL_SECONDS = 0.1  # on this machine only
READING_TIME = datetime.timedelta(minutes=1)  # in which another command reads its outputs
CANCEL_TIMEOUT_SECONDS = 60.0
STEP_HELP = """\
Executes one task of an earlier run again on this machine: with the inputs of that run, the code of
now, and changed settings. Prints its outputs beside those of the run. Nothing is registered, and
neither the run nor its model changes. The service keeps running, for the next step.

  trainyard step latest evaluate --set thresholds.accuracy=0.99
  trainyard step latest prepare-examples --workload churn/
"""


def add_step(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `step`."""
    describe(parser, STEP_HELP)
    parser.add_argument("name", metavar="RUN", help=NAMES["RUN"])
    parser.add_argument("task", metavar="TASK", choices=TASKS, help=", ".join(TASKS))
    add_set(parser, "change a setting of the run that the task reads; may be repeated")
    text = "the folder of your workload; default: the one that the run came from"
    parser.add_argument("--workload", metavar="WORKLOAD", default="", help=text)
    add_json(parser, "print the outputs as JSON")
    add_target(parser)
    parser.set_defaults(command=_step)


def _step(arguments: argparse.Namespace) -> int:
    if arguments.on == "vertex":
        raise ConfigError("step executes tasks on this machine only; on Vertex AI, use submit")
    target, name = target_of(arguments), arguments.task
    options = {"settings": arguments.settings, "workload": arguments.workload, "target": target}
    with api_of(arguments, keeps_service=True) as api:
        job = RUN.get(api, arguments.name)
        submission = plan_task(job, name, **options)
        folder = target.run_dir(job["displayName"]) / submission.run
        ended = execute(api, submission, name, folder=folder)
    if "error" in ended:
        raise StepError(f"{ended['error']['message']}\nlog: {folder / 'log.txt'}")
    before, now = (outputs_of(details_by_name(run)[name]) for run in (job, ended))
    if arguments.json:
        return print_json({"run": job["displayName"], "before": before, "now": now})
    print_table(TextTable(HEADINGS, [*map(difference_row, compare_outputs(before, now))]))
    print("", *str(now.get("reasons", "")).splitlines(), f"outputs: {folder}", sep="\n")
    if report := now.get("report.uri"):
        print(f"report: {report}")
    return 0


def execute(api: VertexApi, submission: Submission, task: str, *, folder: Path) -> Json:
    """Execute a task to its end and return its run; keep the log, and delete the run's record."""
    run = submission.run
    delete_lost(api)
    try:
        create_run(api, submission.request, run=run)
        while not RUN.is_final(job := RUN.get(api, run)):
            time.sleep(POLL_SECONDS)
        return job
    finally:
        if api.find(RUN.path(api, run)):
            RUN.cancel(api, run)
            RUN.wait(api, run, timeout_seconds=CANCEL_TIMEOUT_SECONDS)
            folder.mkdir(parents=True, exist_ok=True)
            lines = run_log_lines(api, run, task=task)
            (folder / "log.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
            RUN.delete(api, run)


def delete_lost(api: VertexApi) -> None:
    """Delete the records of tasks whose command was killed before it could."""
    now = datetime.datetime.now(datetime.UTC)
    for body in api.list_resources(RUN.collection, filter=f"labels.{STEP_LABEL}:*"):
        if not RUN.is_final(body):
            continue
        if now - datetime.datetime.fromisoformat(body["endTime"]) > READING_TIME:
            with contextlib.suppress(VertexError):  # another step deletes it
                RUN.delete(api, short_name(body["name"]))


def compare_outputs(before: Json, now: Json) -> list[Difference]:
    """Return the outputs that fit into a table: no addresses, lists and JSON objects."""

    def shown(outputs: Json) -> Json:
        texts = {
            name: " ".join(value.split()) if isinstance(value, str) else value
            for name, value in outputs.items()
            if not name.endswith(".uri")
        }
        return {name: text for name, text in texts.items() if str(text)[:1] not in ("", "{", "[")}

    first, second = shown(before), shown(now)
    return [
        Difference(kind="", name=name, first=first.get(name), second=second.get(name))
        for name in second | first
    ]
