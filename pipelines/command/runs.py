"""`trainyard submit|upload|runs`: start pipeline runs, and look after them."""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from components.run_summary.summary import GATE_FAILED, Summary
from components.vertex.api import VertexApi, connect
from pipelines.command.clusters import warn_of_gpus
from pipelines.command.models_endpoints import (
    add_action,
    add_endings,
    group_of,
    print_json,
)
from pipelines.command.run_views import add_views
from pipelines.command.target_options import add_target, service_of, target_of
from pipelines.config import RUNS
from pipelines.package import registry
from pipelines.package.spec import check_images, own_image
from pipelines.runs import listing as runs
from pipelines.runs.execute import cancel_and_wait, new_run_name, show_run, summary_of
from pipelines.runs.hints import after_failure, command, log_command, stop_command
from pipelines.runs.on_failure import add_on_failure, check_command, tell
from pipelines.runs.removal.files import RunFiles
from pipelines.runs.removal.prune import delete_run
from pipelines.runs.request import console_url, create_run
from pipelines.runs.resume import explain_resume, plan_resume
from pipelines.runs.submit import (
    RunOptions,
    Submission,
    config_of,
    package_of,
    plan_run,
    run_prefix,
)
from pipelines.runs.task_table import MOST_DRIFT
from pipelines.runs.view import leaf_tasks
from pipelines.target.containers import add_containers
from pipelines.target.local_service import LocalService
from pipelines.target.places import Target

EXIT_FAILED = 1
EXIT_GATED = 3
SOURCE_HELP = f"a workload ({', '.join(RUNS)}), a package file, or a package's address"
SUBMIT = """\
Starts a pipeline run and prints its name and its page. Everything that can be checked is checked
before anything is sent. With --wait: exit codes 0 succeeded, 1 failed or cancelled, 3 the metrics
did not pass, 130 left running. Ctrl-C while waiting asks whether to cancel the run; without a
terminal it goes on.

  trainyard submit mnist --set train.epochs=5 --set labels.team=vision
  trainyard submit dist/taxi.yaml --on vertex --project P --pipeline-root gs://BUCKET/runs
  trainyard submit https://us-central1-kfp.pkg.dev/P/REPOSITORY/train-and-deploy-mnist/latest
"""
RESUME = """\
Sends the request of a run again, with the same parameters, under a new name. The steps that have
succeeded come from the cache; training goes on from its last checkpoint. A repeated `trainyard run`
with the same settings does the same. Exit codes with --wait: as of submit.

  trainyard runs resume mnist-20261121-093015 --wait
"""


def add_run_commands(commands: Any) -> None:
    """Adds `submit`, `upload` and the group `runs`."""
    _add_submit(commands)
    _add_upload(commands)
    text = "pipeline runs: list, show, diff, logs, cancel, resume, delete"
    actions = group_of(commands, "runs", text)
    add_views(actions)
    text = "go on with a run that failed or was cancelled, as a new run RUN-r2"
    resume = add_action(actions, "resume", _resume, text, "RUN")
    resume.description = RESUME
    resume.formatter_class = argparse.RawDescriptionHelpFormatter
    resume.add_argument("--wait", action="store_true", help="until the run has ended")
    add_on_failure(resume)
    add_containers(resume)
    text = "a run that has ended; on this machine with its files, unless another run uses them"
    add_endings(actions, runs.RUN, "RUN", delete_help=text, delete=_delete)


def _add_submit(commands: Any) -> None:
    submit = commands.add_parser(
        "submit",
        help="start a pipeline run",
        description=SUBMIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    submit.add_argument("source", metavar="PACKAGE", help=SOURCE_HELP)
    submit.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="change a setting, as train.epochs=5, cluster.spot=true or labels.team=vision",
    )
    submit.add_argument("--cluster", type=Path, metavar="FILE", help="cluster file")
    submit.add_argument("--name", help="of the run; default: the workload and the time")
    submit.add_argument("--no-cache", action="store_true", help="run every step anew")
    add_keep_endpoint(submit)
    submit.add_argument("--image", help="container image, if the package names none yet")
    submit.add_argument("--data-dir", metavar="DIR", help="folder with raw data, or gs://")
    submit.add_argument("--service-account", help="Vertex AI: run as this service account")
    add_containers(submit)
    add_on_failure(submit)
    ending = submit.add_mutually_exclusive_group()
    ending.add_argument("--wait", action="store_true", help="until the run has ended")
    ending.add_argument("--dry-run", action="store_true", help="only print the request, as JSON")
    add_target(submit)
    submit.set_defaults(command=_submit)


def add_keep_endpoint(parser: argparse.ArgumentParser) -> None:
    """Adds the option that is short for a setting."""
    parser.add_argument(
        "--keep-endpoint",
        action="append_const",
        const="keep_endpoint=true",
        dest="settings",
        help="leave the promoted model deployed, as --set keep_endpoint=true; an endpoint that "
        "served before goes on serving anyway",
    )


def _add_upload(commands: Any) -> None:
    upload = commands.add_parser(
        "upload",
        help="put a package into an Artifact Registry repository",
        description="Puts a package into a repository of the KFP format; submit takes its address.",
    )
    upload.add_argument("source", metavar="PACKAGE", help="a workload or a package file")
    upload.add_argument("--repository", required=True, metavar="URL", help=registry.FORM)
    upload.add_argument(
        "--tag", action="append", default=[], dest="tags", help="may be repeated; it moves here"
    )
    upload.add_argument("--image", help="container image, if the package names none yet")
    upload.set_defaults(command=_upload)


def _submit(arguments: argparse.Namespace) -> int:
    check_command(arguments.on_failure, is_waiting=arguments.wait)
    target = target_of(arguments)
    submission = _submission(arguments, target)
    if arguments.dry_run:
        path = f"/v1/{target.parent}/pipelineJobs?pipelineJobId={submission.run}"
        print(f"POST {path}", file=sys.stderr)
        return print_json(submission.request)
    with service_of(
        arguments, target, image=arguments.image or own_image(submission.package)
    ) as service:
        if service and submission.config:
            warn_of_gpus(submission.config.cluster)
        return _start(arguments, target, submission, service)


def _resume(arguments: argparse.Namespace) -> int:
    check_command(arguments.on_failure, is_waiting=arguments.wait)
    target = target_of(arguments, needs_bucket=False)
    with service_of(arguments, target) as service:
        api = connect(target.project, target.location)
        runs_image = service is None or arguments.containers
        submission = plan_resume(api, arguments.name, runs_image=runs_image)
        print(explain_resume(api, arguments.name), flush=True)
        return _start(arguments, target, submission, service)


def _start(
    arguments: argparse.Namespace,
    target: Target,
    submission: Submission,
    service: LocalService | None,
) -> int:
    """Starts a run; waits for its end, or leaves it to the service."""
    api = connect(target.project, target.location)
    create_run(api, submission.request, run=submission.run)
    print(submission.run, flush=True)
    print(f"page: {console_url(api, submission.run)}", flush=True)
    if arguments.wait:
        return _await(arguments, api, submission, target, service)
    if service:
        leave(service, submission.run, target)
    return 0


def leave(service: LocalService, run: str, target: Target) -> None:
    """Let the service stay with a run that nobody waits for; says how to look and how to end it."""
    service.keep()
    print(f"{log_command(run, '', target)} --follow   # what it does")
    print(f"{stop_command(target)}   # ends the service, and runs in it")


def _submission(arguments: argparse.Namespace, target: Target) -> Submission:
    package = package_of(arguments.source, image=arguments.image)
    config = config_of(package, settings=arguments.settings, cluster=arguments.cluster)
    return plan_run(
        package,
        run=arguments.name or new_run_name(run_prefix(package)),
        target=target,
        config=config,
        options=RunOptions(
            use_cache=not arguments.no_cache,
            service_account=arguments.service_account,
        ),
        settings=arguments.settings,
    )


def _await(
    arguments: argparse.Namespace,
    api: VertexApi,
    submission: Submission,
    target: Target,
    service: LocalService | None,
) -> int:
    """Shows the run to its end; whoever interrupts decides what becomes of it."""
    names = leaf_tasks(submission.package.spec)
    try:
        view = show_run(api, run=submission.run, task_names=names, console=Console())
    except KeyboardInterrupt:
        if not _wants_cancel(submission.run):
            if service:
                service.keep()
            end = command(f"trainyard runs cancel {submission.run}", target)
            print(f"run {submission.run} goes on; {end} ends it", file=sys.stderr)
            raise
        view = cancel_and_wait(api, run=submission.run, task_names=names)
    summary = summary_of(view, submission.request, run=submission.run)
    return tell_end(summary, target, on_failure=arguments.on_failure)


def tell_end(summary: Summary, target: Target, *, on_failure: str = "") -> int:
    """Print how a run has ended, and tell the command of a bad end; return the exit code."""
    print(f"run {summary.run} is {summary.state}")
    for words in summary.drift[:MOST_DRIFT]:
        print(f"drift: {words}")
    if summary.data_report:
        print(f"data report: {summary.data_report}")
    if summary.error:
        print(f"trainyard: {summary.error}", file=sys.stderr)
    if problem := tell(check_command(on_failure), summary, target=target):
        print(f"trainyard: {problem}", file=sys.stderr)
    if summary.state != "SUCCEEDED":
        print(f"try: {after_failure(summary, target)[0]}", file=sys.stderr)
        return EXIT_FAILED
    if summary.outcome != GATE_FAILED:
        return 0
    print(f"the metrics did not pass: {'; '.join(summary.reasons)}")
    return EXIT_GATED


def _wants_cancel(run: str) -> bool:
    """Whether the person at the terminal wants to cancel; without one, nobody does."""
    if not sys.stdin.isatty():
        return False
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        return input(f"\nCancel run {run}? [y/N] ").strip().lower() in ("y", "yes")
    return False


def _upload(arguments: argparse.Namespace) -> int:
    package = package_of(arguments.source, image=arguments.image)
    check_images(package)
    uploaded = registry.upload(package, repository=arguments.repository, tags=arguments.tags)
    print(f"{uploaded.name} {uploaded.version}")
    for address in uploaded.addresses:
        print(address)
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    target = target_of(arguments, needs_bucket=False)
    with service_of(arguments, target) as service:
        api = connect(target.project, target.location)
        if service is None:
            runs.RUN.delete(api, arguments.name)
            reason = ""
        else:
            reason = delete_run(RunFiles(api, target.state_dir), arguments.name)
    print(f"deleted {arguments.name}" + (f"; {reason}" if reason else ""))
    return 0
