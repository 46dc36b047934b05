"""`trainyard tune`: trials of a workload's training with different settings, as a tuning job."""

import argparse
import shlex
import sys

from rich.console import Console
from rich.live import Live
from rich.text import Text

from components.shared.vertex.api import VertexApi
from components.shared.vertex.resource_name import console_page, to_open
from pipelines.command.actions import add_json, add_set, describe, print_json, print_table
from pipelines.command.parser import count
from pipelines.command.target_options import add_target, service_of
from pipelines.command.training.jobs_submit import add_job_options, job_name, job_to_send
from pipelines.config.cluster_files import warn_of_local_limits
from pipelines.exit_codes import FAILED, INTERRUPTED, OK, USAGE, exit_codes_text
from pipelines.jobs.search_space import split_space
from pipelines.jobs.tuning import (
    ALGORITHMS,
    best_line,
    count_folds,
    create_tuning_job,
    trials_table,
    tuning_facts,
    tuning_request,
    with_folds,
)
from pipelines.places.target import Target
from pipelines.projects.runs import FORMS, find_run
from pipelines.resources.kinds import TUNING
from pipelines.resources.names import short_name
from pipelines.resources.table import table_lines
from pipelines.runs.output.hints import command
from pipelines.runs.submit import configured
from trainer import Json

CANCEL_TIMEOUT_SECONDS = 120.0
HELP = f"""\
Trains a workload several times with different settings and names the best, by its metric on the
eval split (train.best_metric; the test split is never read). Nothing is promoted. A setting with
commas has choices, one with .. a range; lists are written [64,32],[128]. Only train.NAME and
model.NAME can vary. The examples are prepared once. Of fewer than 500 rows, or with gate.folds,
each trial is trained on folds of train and eval, and their mean counts.

  trainyard tune taxi --set train.learning_rate=1e-4..1e-2 --set model.embedding_size=4,8,16 \\
      --trials 20 --parallel 2
  trainyard run taxi --from TUNE          train the best again, and let the gate judge it

Ctrl-C cancels the trials that run and keeps the others. After a crash the same command with
--name TUNE continues. On Vertex AI it is a hyperparameter tuning job, too.

{exit_codes_text(OK, FAILED, USAGE, INTERRUPTED)}
"""


def add_tune(tune: argparse.ArgumentParser) -> None:
    """Add the arguments of `tune`."""
    describe(tune, HELP)
    tune.add_argument("workload", metavar="WORKLOAD", help=FORMS)
    text = "a setting for all trials, KEY=VALUE, or one to vary, KEY=A,B,C or KEY=LOW..HIGH"
    add_set(tune, text, "KEY=VALUES")
    tune.add_argument("--trials", type=count, default=20, metavar="N", help="default: %(default)s")
    tune.add_argument(
        "--parallel", type=count, default=1, metavar="N", help="trials at a time; default: 1"
    )
    tune.add_argument(
        "--search",
        choices=list(ALGORITHMS),
        default="bayesian",
        help="default: %(default)s; a grid needs choices or whole numbers",
    )
    tune.add_argument(
        "--stop-early",
        action="store_true",
        help="end a trial that is worse than the median of the others at the same step",
    )
    tune.add_argument(
        "--name", type=job_name, help="name of the tuning job; an existing one is followed"
    )
    ending = tune.add_mutually_exclusive_group()
    add_json(ending, "print the result as JSON")
    ending.add_argument("--dry-run", action="store_true", help="only print the request, as JSON")
    add_target(tune)
    add_job_options(tune)
    tune.set_defaults(command=_tune)


def _tune(arguments: argparse.Namespace) -> int:
    config = find_run(arguments.workload)
    fixed, varied = split_space(arguments.settings, config)
    config = configured(config, settings=fixed, cluster=arguments.cluster)
    config, target, examples, parts = job_to_send(arguments, config, "tune-")
    name = parts["name"]
    request = tuning_request(
        config,
        varied,
        num_trials=arguments.trials,
        num_parallel=arguments.parallel,
        algorithm=arguments.search,
        stops_early=arguments.stop_early,
        **parts,
    )
    if arguments.dry_run:
        print(f"POST /v1/{target.parent}/{TUNING.collection}", file=sys.stderr)
        return print_json(with_folds(request, count_folds(config, examples.uri)))
    with service_of(arguments, target, makes_state=True, image=parts["image"]) as service:
        if service:
            warn_of_local_limits(config.cluster)
        api = target.connect()
        job = TUNING.find(api, name)
        if job is None:
            examples.prepare()
            num_folds = count_folds(config, examples.uri)
            judge = f"{num_folds} folds of train and eval" if num_folds else "the eval split"
            title = f"{name}: {arguments.trials} trials, {arguments.search} search, by {judge}"
            for line in (title, *varied):
                print(line, file=sys.stderr)
            job = create_tuning_job(api, with_folds(request, num_folds))
        page = to_open(console_page(job["name"]))
        print(f"page: {page}", file=sys.stderr)
        return _follow(api, job, arguments, target)


def _follow(api: VertexApi, job: Json, arguments: argparse.Namespace, target: Target) -> int:
    """Show a tuning job until it has ended, cancel it on Ctrl-C, and print its result."""
    job_id, is_interrupted = short_name(job["name"]), False
    try:
        job = _show_to_end(api, job_id)
    except KeyboardInterrupt:
        print("cancelling; the trials that have ended are kept", file=sys.stderr)
        TUNING.cancel(api, job_id)
        job = TUNING.wait(api, job_id, timeout_seconds=CANCEL_TIMEOUT_SECONDS)
        is_interrupted = True
    facts = tuning_facts(job)
    if arguments.json:
        print_json(facts)
    else:
        print_table(trials_table(facts))
        print(best_line(facts))
        if facts["best"]:
            workload = shlex.quote(arguments.workload)
            run = f"trainyard run {workload} --from {facts['name']}"
            print(f"{command(run, target)}   # train it again, and let the gate judge it")
    if is_interrupted:
        return INTERRUPTED
    if facts["error"]:
        print(f"trainyard: {facts['error']}", file=sys.stderr)
    return OK if facts["state"] == "SUCCEEDED" else FAILED


def _show_to_end(api: VertexApi, job_id: str) -> Json:
    """Show the trials: live on a terminal, else a line when one has ended; return the job."""
    console = Console(stderr=True)
    num_ended, best = 0, ""
    with Live(console=console, transient=True, auto_refresh=False) as live:
        for job in TUNING.polled(api, job_id):
            facts = tuning_facts(job)
            ended = [trial for trial in facts["trials"] if trial["seconds"] is not None]
            if console.is_terminal:
                lines = "\n".join(table_lines(trials_table(facts)))
                live.update(Text(lines, no_wrap=True, overflow="ellipsis"), refresh=True)
            elif len(ended) > num_ended:
                news = "" if best == best_line(facts) else f"; {best_line(facts)}"
                print(f"{len(ended)} of {facts['num_trials']} trials{news}", file=sys.stderr)
                num_ended, best = len(ended), best_line(facts)
    return job
