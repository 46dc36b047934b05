"""`trainyard run|submit`: start a pipeline run.

`run` is `submit --wait` and then teardown; both are parsed and executed by the same functions.
"""

import argparse
import contextlib
import dataclasses
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console

from components.errors import StepError
from components.prepare_examples.raw_data.fetch import fetch
from pipelines.command.actions import add_json, add_set, describe
from pipelines.command.output import add_output, with_result
from pipelines.command.parser import dollars
from pipelines.command.running.checked_run import CheckedRun, check_run, compiled, submission_of
from pipelines.command.running.execution import start_run
from pipelines.command.running.plan import planned, show_plan, within_cost
from pipelines.command.target_options import (
    add_containers,
    add_target,
    folders_of_files,
    service_of,
    target_of,
)
from pipelines.config.cluster_files import warn_of_local_limits, warn_of_restarts
from pipelines.config.run_config import RunConfig
from pipelines.exit_codes import FAILED, GATED, INTERRUPTED, OK, USAGE, exit_codes_text
from pipelines.package.spec import Package
from pipelines.places.target import Target
from pipelines.plan.run_plan import summary_of
from pipelines.projects.runs import FORMS
from pipelines.runs.request import warn_of_readable_address
from pipelines.runs.submit import Submission
from trainer.errors import TrainerError

EXIT_CODES = exit_codes_text(OK, FAILED, USAGE, GATED, INTERRUPTED)
RUN_HELP = f"""\
Runs the pipeline: prepare examples, train, evaluate, and if the metrics pass the thresholds,
check the prediction server, upload a model version, deploy it, move the traffic and promote it.
Then tears down; an endpoint that served before the run serves the promoted version after it.
Ctrl-C cancels the run and tears down.

{EXIT_CODES}
"""
SUBMIT_HELP = f"""\
Starts a pipeline run and prints its name and its page. Everything that can be checked is checked
before anything is sent. With --wait, Ctrl-C asks whether to cancel the run; without a terminal the
run continues.

  trainyard submit mnist --set train.epochs=5 --set labels.team=vision
  trainyard submit dist/taxi.yaml --on vertex --project P --pipeline-root gs://BUCKET/runs
  trainyard submit https://us-central1-kfp.pkg.dev/P/REPOSITORY/train-and-deploy-mnist/latest

With --wait, {EXIT_CODES}
"""


PLAN_HELP = """\
Prints what `trainyard run` would do now, and sends nothing: each task with its state (cached, runs,
or depends on the verdict), which setting, file of code or file of data has changed since which run,
seconds as in earlier runs, the price of the training on Vertex AI and the quota it needs.

  trainyard plan mnist --set train.epochs=5
  trainyard plan churn/ --on vertex --image IMAGE --json
"""


def add_run(run: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
    describe(run, RUN_HELP)
    run.add_argument("source", metavar="WORKLOAD", help=FORMS)
    run.add_argument(
        "--from",
        dest="tuning_job",
        metavar="TUNE",
        help="train with the settings of the best trial of a `trainyard tune`; --set changes them",
    )
    add_output(run)
    add_options(run)
    start = partial(with_result, _start)
    run.set_defaults(command=start, name="", wait=True, dry_run=False, tears_down=True)


def add_submit(submit: argparse.ArgumentParser) -> None:
    """Add the arguments of `submit`."""
    describe(submit, SUBMIT_HELP)
    submit.add_argument(
        "source",
        metavar="PACKAGE",
        help=f"a workload ({FORMS}), a package file, or a package's address",
    )
    submit.add_argument("--name", help="name of the run; default: the workload and the time")
    ending = submit.add_mutually_exclusive_group()
    ending.add_argument("--wait", action="store_true", help="wait until the run has ended")
    ending.add_argument(
        "--dry-run",
        action="store_true",
        help="send nothing: print the plan, as `trainyard plan`; --json: the request",
    )
    add_output(submit)
    add_options(submit)
    start = partial(with_result, _start)
    submit.set_defaults(command=start, tears_down=False, tuning_job=None, is_plan=False)


def add_plan(plan: argparse.ArgumentParser) -> None:
    """Add the arguments of `plan`."""
    describe(plan, PLAN_HELP)
    plan.add_argument("source", metavar="WORKLOAD", help=f"{FORMS}, or a package")
    add_json(plan, "print the plan as JSON")
    add_options(plan)
    defaults = {"name": "", "wait": False, "dry_run": True, "is_plan": True}
    plan.set_defaults(command=_start, tears_down=False, tuning_job=None, **defaults)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run` and `submit` share."""
    parser.add_argument(
        "--cluster", type=Path, metavar="FILE", help="cluster file: configs/clusters"
    )
    add_set(parser)
    parser.add_argument(
        "--no-cache", action="store_true", help="run every step again and replace its cached output"
    )
    parser.add_argument(
        "--keep-endpoint",
        action="append_const",
        const="keep_endpoint=true",
        dest="settings",
        help="leave the promoted model deployed, as --set keep_endpoint=true; an endpoint that "
        "served before the run is always kept",
    )
    parser.add_argument(
        "--max-cost",
        type=dollars,
        metavar="DOLLARS",
        help="refuse a training that cost more in an earlier run, by its time and Vertex AI's "
        "prices, and limit its time so that it cannot cost more",
    )
    add_target(parser)
    advanced = parser.add_argument_group("advanced")
    advanced.add_argument(
        "--image",
        help="container image of the steps; default: the package's, or named by a digest of the "
        "source",
    )
    advanced.add_argument(
        "--data-dir", metavar="DIR", help="folder, or gs:// address, with a folder per workload"
    )
    add_containers(advanced)


def _start(arguments: argparse.Namespace) -> int:
    target = target_of(arguments)
    run = check_run(arguments, target)
    config = run.config
    if arguments.dry_run:
        return _show(arguments, run, target)
    if config:
        warn_of_restarts(config.cluster)
    if config and arguments.tears_down:
        title = f"[bold]{run.name}[/]: {config.cluster} ({config.cluster.strategy})"
        Console().print(title, highlight=False)
    mounts = folders_of_files(config.prepare_options().files) if config else []
    pool = ThreadPoolExecutor(1)
    # While the service starts: both take about as long.
    compiling = pool.submit(compiled, arguments, run, target)
    pool.shutdown(wait=False)
    with service_of(arguments, target, makes_state=True, image=run.image, mounts=mounts) as service:
        if service and config:
            warn_of_local_limits(config.cluster)
            if arguments.tears_down:
                _fetch_data(config, target)
        build = submission_of if arguments.max_cost is None else _limited
        submission = build(arguments, run, compiling.result(), target)
        if arguments.tears_down:
            _say_plan(arguments, submission, target)
        warn_of_readable_address(submission.request)
        return start_run(arguments, submission, target=target, service=service)


def _show(arguments: argparse.Namespace, run: CheckedRun, target: Target) -> int:
    """Print what would be sent: a plan of the run, or with --json the request."""
    package = compiled(arguments, run, target)
    submission = submission_of(arguments, run, package, target)
    is_shown = arguments.is_plan or not arguments.json
    if is_shown or arguments.max_cost is not None:
        with service_of(arguments, target, makes_state=True):
            if arguments.max_cost is not None:
                submission = _limited(arguments, run, package, target)
            if is_shown:
                return show_plan(arguments, submission, target)
    print(f"POST /v1/{target.parent}/pipelineJobs?pipelineJobId={run.name}", file=sys.stderr)
    arguments.result = submission.request, run.name
    return OK


def _limited(
    arguments: argparse.Namespace, run: CheckedRun, package: Package, target: Target
) -> Submission:
    """Return the request of a run whose training costs at most --max-cost."""

    def build(config: RunConfig) -> Submission:
        return submission_of(arguments, dataclasses.replace(run, config=config), package, target)

    plan = partial(planned, arguments, target=target)
    return within_cost(build, run.config, limit=arguments.max_cost, plan=plan)


def _say_plan(arguments: argparse.Namespace, submission: Submission, target: Target) -> None:
    """Print which tasks are cached, and why others are not; a run finds mistakes itself."""
    with contextlib.suppress(TrainerError, StepError, OSError):
        if line := summary_of(planned(arguments, submission, target)):
            print(line)


def _fetch_data(config: RunConfig, target: Target) -> None:
    """Download the raw data before the run starts, so that a failed download is found at once."""
    options = config.prepare_options()
    if config.is_built_in and not options.files and options.source == "files":
        folder = Path(target.data_root) / config.workload
        fetch(config.workload, folder, trust_files=config.trust_files)
