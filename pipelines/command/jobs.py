"""`trainyard jobs`: look at training jobs, wait for them, end and delete them."""

import argparse
import sys
from typing import Any

from components.vertex.api import VertexApi
from components.vertex.job_warnings import job_warnings
from pipelines.command.durations import seconds
from pipelines.command.models_endpoints import (
    add_action,
    add_endings,
    api_of,
    group_of,
    print_json,
    print_table,
)
from pipelines.jobs import lifecycle as jobs
from pipelines.jobs import log as job_log
from pipelines.jobs import view as job_view
from pipelines.resources import short_name
from trainer.json_types import Json

EXIT_FAILED = 1
EXIT_TIMEOUT = 124  # as timeout(1) has it
EXIT_CODES = "exit codes: 0 succeeded, 1 failed or cancelled, 124 the time is over, 130 interrupted"


def add_job_commands(commands: Any) -> Any:
    """Adds the group `jobs` and its actions but `submit`; answers the group."""
    text = "training jobs: submit, list, show, logs, wait, cancel, delete"
    actions = group_of(commands, "jobs", text)
    add_action(actions, "list", _list, "all jobs, newest first")
    show = add_action(actions, "show", _show, "one job, and how each replica fares", "JOB_ID")
    show.add_argument("--json", action="store_true", help="as Vertex AI answers it")
    logs = add_action(actions, "logs", _logs, "what a job's replicas wrote", "JOB_ID")
    logs.add_argument("--replica", metavar="TASK", help="of one replica, as chief/0 or worker/1")
    logs.add_argument("--follow", action="store_true", help="go on until the job ends")
    logs.add_argument("--timestamps", action="store_true", help="the time in front of each line")
    wait = add_action(actions, "wait", _wait, "until a job has ended", "JOB_ID")
    wait.epilog = f"The job goes on when this gives up. {EXIT_CODES}"
    add_timeout(wait, "give up after so long, as 90, 30m or 2h; default: never")
    add_endings(actions, jobs.JOB, "JOB_ID", delete_help="a job that has ended, with its log")
    return actions


def add_timeout(parser: argparse.ArgumentParser, text: str) -> None:
    """Adds --timeout."""
    parser.add_argument("--timeout", type=seconds, metavar="TIME", help=text)


def follow(api: VertexApi, job_id: str, *, has_times: bool = False) -> Json:
    """Prints a job's log until the job has ended; answers the job."""
    for line in job_log.log_lines(api, job_id, is_followed=True, has_times=has_times):
        print(line, flush=True)
    return jobs.wait_for_job(api, job_id)


def tell_end(api: VertexApi, job: Json) -> int:
    """Prints how a job has ended, and its warnings; answers the exit code."""
    job_id, state = short_name(job["name"]), jobs.JOB.state_of(job)
    for warning in job_warnings(api, job_id):
        print(f"trainyard: warning: {warning}", file=sys.stderr)
    print(f"job {job_id} is {state}", flush=True)
    if state == "SUCCEEDED":
        return 0
    if message := job.get("error", {}).get("message"):
        print(f"trainyard: {message}", file=sys.stderr)
    return EXIT_FAILED


def _list(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        return print_table(jobs.jobs_table(api))


def _show(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        job = jobs.JOB.get(api, arguments.name)
        if arguments.json:
            return print_json(job)
        print("\n".join([*job_view.job_summary(api, job), ""]))
        print_table(job_view.replicas_table(api, job))
        if usage := job_view.usage_table(api, job):
            print()
            print_table(usage)
        return 0


def _logs(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        for line in job_log.log_lines(
            api,
            arguments.name,
            replica=arguments.replica,
            has_times=arguments.timestamps,
            is_followed=arguments.follow,
        ):
            print(line, flush=arguments.follow)
    return 0


def _wait(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        try:
            job = jobs.wait_for_job(api, arguments.name, timeout_seconds=arguments.timeout)
        except TimeoutError as error:
            print(f"trainyard: {error}", file=sys.stderr)
            return EXIT_TIMEOUT
        return tell_end(api, job)
