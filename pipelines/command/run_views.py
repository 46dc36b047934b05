"""`trainyard runs list|show|diff|logs`: look at runs."""

import argparse
import json
from typing import Any

from components.run_summary.summary import summarize
from pipelines.command.models_endpoints import add_action, api_of, print_json, print_table
from pipelines.command.target_options import add_target
from pipelines.runs import listing as runs
from pipelines.runs.differences import compare, differences_json, differences_table
from pipelines.runs.facts import newest_runs
from pipelines.runs.tables import aligned, run_lines, runs_table

NEWEST = 20
LIST = """\
How the newest runs ended: promoted, same-model (the version that it would register is the default
already), gate-failed (the metrics did not pass), cancelled, failed, interrupted (killed), or
succeeded (a pipeline of others). A run that goes on has its state.

  trainyard runs list --schedule mnist-nightly --limit 7
  trainyard runs list --json | jq '.[] | [.run, .outcome, .metrics.accuracy]'
"""
DIFF = """\
Where two runs differ in settings, digests of data and code, and metrics; CHANGE is B minus A.

  trainyard runs diff mnist-20261121-093015 mnist-20261122-093015
"""


def add_views(actions: Any) -> None:
    """Adds the actions that change nothing."""
    formatter = argparse.RawDescriptionHelpFormatter
    list_ = add_action(actions, "list", _list, "how the newest runs ended")
    list_.description, list_.formatter_class = LIST, formatter
    list_.add_argument(
        "--limit", type=_count, default=NEWEST, metavar="N", help="default: %(default)s; 0: all"
    )
    list_.add_argument("--schedule", default="", metavar="NAME", help="runs of this schedule only")
    list_.add_argument("--json", action="store_true", help="a list of what summary.json holds")
    show = add_action(actions, "show", _show, "one run, and how each task fares", "RUN")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as Vertex AI answers it")
    form.add_argument("--summary", action="store_true", help="as summary.json holds it")
    diff = actions.add_parser("diff", help="where two runs differ", description=DIFF)
    diff.formatter_class = formatter
    diff.add_argument("first", metavar="A")
    diff.add_argument("second", metavar="B")
    diff.add_argument("--all", action="store_true", help="also what is the same")
    diff.add_argument("--json", action="store_true", help="values as they are, not cut")
    add_target(diff)
    diff.set_defaults(command=_diff)
    logs = add_action(actions, "logs", _logs, "what a run's tasks wrote", "RUN")
    logs.add_argument("--task", metavar="TASK", help="of one task, as evaluate")
    logs.add_argument("--follow", action="store_true", help="go on until the run ends")


def _list(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        found = newest_runs(api, limit=arguments.limit, schedule=arguments.schedule)
    if arguments.json:
        return print_json([json.loads(run.to_json()) for run in found])
    return print_table(runs_table(found))


def _show(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        job = runs.RUN.get(api, arguments.name)
    if arguments.json:
        return print_json(job)
    summary = summarize(job)
    if arguments.summary:
        print(summary.to_json(), end="")
        return 0
    print("\n".join([*run_lines(summary, job), ""]))
    return print_table(runs.tasks_table(job))


def _diff(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        first, second = (
            summarize(runs.RUN.get(api, name)) for name in (arguments.first, arguments.second)
        )
    found = compare(first, second, has_all=arguments.all)
    if arguments.json:
        return print_json(differences_json(first, second, found))
    lines = [f"A  {first.run}", f"B  {second.run}", ""]
    lines += aligned(differences_table(found)) if found else ["settings, data, code, metrics: same"]
    print("\n".join(lines))
    return 0


def _logs(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        for line in runs.log_lines(
            api, arguments.name, task=arguments.task, is_followed=arguments.follow
        ):
            print(line, flush=arguments.follow)
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a whole number, 0 or more")
    return int(text)
