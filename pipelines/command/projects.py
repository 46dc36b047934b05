"""`trainyard check`: try a workload of one's own on a few examples."""

import argparse
from typing import Any

from pipelines.command.actions import describe
from pipelines.exit_codes import OK, USAGE, exit_codes_text
from pipelines.trial.check import check
from pipelines.trial.findings import NOT_TRIED, WRONG, Finding

CHECK = f"""\
Tries a workload of your own in seconds: its declaration, run.yaml and requirements.txt, reading
some of the data, the model, its loss, two steps of training, the export, and predictions. Each
mistake is named with its file and line. Nothing is written into the folder.

  trainyard check churn/

{exit_codes_text(OK, USAGE)}
"""


def add_project_commands(commands: Any) -> None:
    """Add `check`."""
    text = "try a workload of your own on some of its data, and name every mistake"
    parser = commands.add_parser("check", help=text)
    describe(parser, CHECK)
    parser.add_argument(
        "workload", metavar="WORKLOAD", help="a folder with a workload.py, or a package.module"
    )
    parser.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    num_problems, num_tried = 0, 0
    for finding in check(arguments.workload):
        _show(finding)
        num_problems += len(finding.problems)
        num_tried += finding.state != NOT_TRIED
    if not num_problems:
        print(f"no mistake found; run it: trainyard run {arguments.workload}")
        return OK
    mistakes = "1 mistake" if num_problems == 1 else f"{num_problems} mistakes"
    print(f"{mistakes} in {arguments.workload}")
    return USAGE


def _show(finding: Finding) -> None:
    seconds = f"  {finding.seconds:.1f} s" if finding.seconds else ""
    print(f"{finding.name:<16} {finding.state:<9} {finding.detail}{seconds}".rstrip(), flush=True)
    for problem in finding.problems if finding.state == WRONG else ():
        print(f"  {problem}", flush=True)
