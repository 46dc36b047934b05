"""`trainyard jobs`: show training jobs, wait for them, cancel and delete them."""

import argparse
import math
import sys

from components.shared.vertex.api import VertexApi
from components.shared.vertex.task_details import error_of, job_warnings
from pipelines.command.actions import (
    actions_of,
    add_action,
    add_cancel_and_delete,
    add_json,
    listing,
    print_json,
    print_table,
)
from pipelines.command.parser import seconds
from pipelines.command.target_options import api_of, run_module, with_api
from pipelines.exit_codes import FAILED, INTERRUPTED, OK, TIMEOUT, exit_codes_text
from pipelines.jobs.log import job_log_lines
from pipelines.jobs.view import job_summary, jobs_table, newest_jobs, replicas_table
from pipelines.resources.kinds import JOB
from pipelines.resources.names import short_name
from trainer import Json
from trainer.errors import ConfigError

EXAMPLES_FLAG = "--examples-dir="
TIMEOUT_SECONDS = 24 * 3600.0  # of an evaluation
EXIT_CODES = exit_codes_text(OK, FAILED, TIMEOUT, INTERRUPTED)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `jobs`."""
    actions = actions_of(parser)
    list_ = listing(
        lambda api, _: newest_jobs(api), lambda jobs: print_table(jobs_table(jobs)), noun="jobs"
    )
    add_json(add_action(actions, "list", list_, "list all jobs, newest first"))
    show = add_action(actions, "show", with_api(_show), "show a job and its replicas", "JOB")
    add_json(show)
    logs = add_action(actions, "logs", with_api(_logs), "print the logs of a job's replicas", "JOB")
    logs.add_argument(
        "--replica", metavar="REPLICA", help="only this one, e.g. chief/0 or worker/1"
    )
    logs.add_argument("--follow", action="store_true", help="continue until the job ends")
    logs.epilog = f"With --follow, {exit_codes_text(OK, FAILED)}"
    wait = add_action(actions, "wait", with_api(_wait), "wait until a job has ended", "JOB")
    wait.epilog = f"The job continues after a timeout or Ctrl-C. {EXIT_CODES}"
    add_timeout(wait, "stop waiting after this time, e.g. 90, 30m or 2h; default: never")
    text = "print the metrics of a job's model on the test split, which no training reads"
    add_json(add_action(actions, "evaluate", _evaluate, text, "JOB"), "print the metrics as JSON")
    text = "delete a job that has ended, and its log"
    add_cancel_and_delete(actions, JOB, "JOB", delete_help=text)
    text = "train a workload, without a pipeline"
    actions.add_parser(
        "submit", help=text, arguments="pipelines.command.training.jobs_submit:add_submit"
    )


def add_timeout(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --timeout."""
    parser.add_argument("--timeout", type=seconds, metavar="TIME", help=text)


def print_job_outcome(api: VertexApi, job: Json) -> int:
    """Print a job's warnings, final state and error; return the exit code."""
    job_id, state = short_name(job["name"]), JOB.state_of(job)
    for warning in job_warnings(api, job_id):
        print(f"trainyard: warning: {warning}", file=sys.stderr)
    print(f"job {job_id} is {state}", flush=True)
    if state == "SUCCEEDED":
        return OK
    if message := error_of(job):
        print(f"trainyard: {message}", file=sys.stderr)
    return FAILED


def _show(api: VertexApi, arguments: argparse.Namespace) -> int:
    job = JOB.get(api, arguments.name)
    if arguments.json:
        return print_json(job)
    print("\n".join([*job_summary(api, job), ""]))
    print_table(replicas_table(api, job))
    return OK


def _logs(api: VertexApi, arguments: argparse.Namespace) -> int:
    job_id = JOB.id_called(api, arguments.name)
    for line in job_log_lines(
        api,
        job_id,
        replica=arguments.replica,
        is_followed=arguments.follow,
    ):
        print(line, flush=arguments.follow)
    return _print_end(api, job_id) if arguments.follow else OK


def _print_end(api: VertexApi, job_id: str) -> int:
    """Print the final state of a job below its log, to stderr; return the exit code."""
    job = JOB.get(api, job_id)
    words = filter(None, [f"job {job_id} is {JOB.state_of(job)}", error_of(job)])
    print(": ".join(words), file=sys.stderr)
    return OK if JOB.state_of(job) == "SUCCEEDED" else FAILED


def _evaluate(arguments: argparse.Namespace) -> int:
    from pipelines.serving.upload import source_of  # imports NumPy and YAML

    if arguments.on == "vertex":
        raise ConfigError("jobs evaluate is for jobs of this machine; a pipeline evaluates there")
    with api_of(arguments) as api:
        job = JOB.get(api, arguments.name)
    model = source_of(job).uri
    pools = job["jobSpec"]["workerPoolSpecs"]
    args = [arg for pool in pools for arg in pool.get("containerSpec", {}).get("args", [])]
    examples = [arg for arg in args if arg.startswith(EXAMPLES_FLAG)][:1]
    if not examples:
        raise ConfigError(f"job {arguments.name} has no {EXAMPLES_FLAG}: it is no training of ours")
    words = [f"--model={model}", *examples]
    if arguments.json:
        words.append("--json")
    return run_module(arguments, "components.evaluate", *words, timeout_seconds=TIMEOUT_SECONDS)


def _wait(api: VertexApi, arguments: argparse.Namespace) -> int:
    try:
        job_id = JOB.id_called(api, arguments.name)
        job = JOB.wait(api, job_id, timeout_seconds=arguments.timeout or math.inf)
    except TimeoutError as error:
        print(f"trainyard: {error}", file=sys.stderr)
        return TIMEOUT
    return print_job_outcome(api, job)
