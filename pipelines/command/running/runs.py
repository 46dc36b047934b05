"""`trainyard runs`: list, show, diff, logs, cancel, resume and delete runs."""

import argparse
import json
import sys

from components.run_result.summary import Summary, summarize
from components.shared.vertex.api import VertexApi
from pipelines.command.actions import (
    actions_of,
    add_action,
    add_cancel_and_delete,
    add_json,
    chosen,
    describe,
    listing,
    print_json,
    print_table,
)
from pipelines.command.parser import count
from pipelines.command.target_options import add_target, api_of, service_of, target_of, with_api
from pipelines.exit_codes import FAILED, GATED, OK, exit_codes_text
from pipelines.resources.kinds import RUN
from pipelines.resources.names import short_name
from pipelines.resources.table import table_lines
from pipelines.runs.differences import compare, differences_json, judged_table
from pipelines.runs.facts import exit_code_of, newest_runs
from pipelines.runs.output.tables import run_lines, runs_table, tasks_table
from pipelines.runs.removal.files import RunFiles
from pipelines.runs.removal.prune import delete_run
from pipelines.runs.request import comparison_url
from pipelines.runs.view import run_log_lines

DEFAULT_LIMIT = 20
LIST_HELP = """\
Lists the newest runs with their outcome: promoted, same-model (the trained model is the default
version already), nothing-new (its trigger found no new data), gate-failed (the metrics did not
pass), cancelled, failed, interrupted (killed), or succeeded (a pipeline of another repository).
Unfinished runs show their state.

  trainyard runs list --schedule mnist-nightly --limit 7
  trainyard runs list --json | jq '.[] | [.run, .outcome, .metrics.accuracy]'
"""
DIFF_HELP = """\
Shows the differences between two runs, A and B, in settings, digests of data and code, and metrics;
CHANGE is B minus A. Of each metric it says whether B is better or worse: surely, if the 95 %
interval of B's gain on the same test examples does not include zero. The page that it names at a
terminal compares the curves of the trainings, too; `vertex-local stop` ends it.

  trainyard runs diff mnist-20261121-093015-4f1c mnist-20261122-093015-90b2
"""


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `runs`."""
    actions = actions_of(parser)
    command = listing(
        _list,
        lambda runs: print_table(runs_table(runs)),
        noun="runs",
        facts=lambda run: json.loads(run.to_json()),
    )
    list_ = add_action(actions, "list", command, "list the newest runs with their outcome")
    describe(list_, LIST_HELP)
    list_.add_argument(
        "--limit",
        type=count,
        default=DEFAULT_LIMIT,
        metavar="N",
        help="default: %(default)s; 0: all",
    )
    text = "only runs of this schedule"
    list_.add_argument("--schedule", default="", metavar="SCHEDULE", help=text)
    add_json(list_, "a list of summary.json contents")
    show = add_action(
        actions, "show", with_api(_show), "show a run and the state of its tasks", "RUN"
    )
    form = show.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--summary", action="store_true", help="the content of summary.json")
    diff = actions.add_parser("diff", help="show the differences between two runs")
    describe(diff, DIFF_HELP)
    diff.add_argument("first", metavar="RUN")
    diff.add_argument("second", metavar="RUN")
    diff.add_argument("--all", action="store_true", help="include equal values")
    add_json(diff, "print JSON, with values uncut")
    add_target(diff)
    diff.set_defaults(command=_diff)
    logs = add_action(actions, "logs", with_api(_logs), "print the logs of a run's tasks", "RUN")
    logs.add_argument("--task", metavar="TASK", help="only this task, e.g. evaluate")
    logs.add_argument("--follow", action="store_true", help="continue until the run ends")
    logs.epilog = f"With --follow, {exit_codes_text(OK, FAILED, GATED)}"
    text = "continue a run that failed or was cancelled, as a new run RUN-r2"
    actions.add_parser("resume", help=text, arguments="pipelines.command.running.resume:add_resume")
    text = (
        "delete a run that has ended; on this machine also its files, unless another run uses them"
    )
    add_cancel_and_delete(actions, RUN, "RUN", delete_help=text, delete=_delete)


def _list(api: VertexApi, arguments: argparse.Namespace) -> list[Summary]:
    return newest_runs(api, limit=arguments.limit, schedule=arguments.schedule)


def _show(api: VertexApi, arguments: argparse.Namespace) -> int:
    job = RUN.get(api, arguments.name)
    if arguments.json:
        return print_json(job)
    summary = summarize(job)
    if arguments.summary:
        print(summary.to_json(), end="")
        return 0
    print("\n".join([*run_lines(summary, job), ""]))
    return print_table(tasks_table(job))


def _diff(arguments: argparse.Namespace) -> int:
    from components.run_result.report.content import read_evaluation  # NumPy, for this command only
    from pipelines.runs.gains import measure_gains

    has_page = sys.stdout.isatty() and not arguments.json  # it lasts as long as the service
    with api_of(arguments, keeps_service=has_page) as api:
        jobs = [RUN.get(api, name) for name in (arguments.first, arguments.second)]
        first, second = map(summarize, jobs)
        page = comparison_url([job["name"] for job in jobs])
    gains = measure_gains(read_evaluation(first), read_evaluation(second))
    differences = compare(first, second, has_all=arguments.all)
    if arguments.json:
        return print_json(differences_json(first, second, differences, gains.by_metric))
    same = ["no difference in settings, data, code or metrics"]
    table = judged_table(differences, gains.by_metric)
    lines = table_lines(table) if differences else same
    print("\n".join([f"A  {first.run}", f"B  {second.run}", "", *lines, "", gains.words]))
    if has_page and page:
        print(f"page: {page}")
    return 0


def _logs(api: VertexApi, arguments: argparse.Namespace) -> int:
    run = RUN.id_called(api, arguments.name)
    for line in run_log_lines(api, run, task=arguments.task, is_followed=arguments.follow):
        print(line, flush=arguments.follow)
    if not arguments.follow:
        return OK
    summary = summarize(RUN.get(api, run))
    note = f": {summary.error}" if summary.error else ""
    print(f"run {summary.run} is {summary.state}{note}", file=sys.stderr)
    return exit_code_of(summary)


def _delete(arguments: argparse.Namespace) -> None:
    target = target_of(arguments, needs_bucket=False)
    with service_of(arguments, target) as service:
        api = target.connect()
        run = short_name(chosen(RUN, api, arguments.name, verb="delete")["name"])
        if service is None:
            RUN.delete(api, run)
            note = ""
        else:
            note = delete_run(RunFiles(api, target.state_dir), run)
    print(f"deleted run {run}" + (f"; {note}" if note else ""))
