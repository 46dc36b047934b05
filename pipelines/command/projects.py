"""`trainyard new|check`: write the folder of a workload from data, and try it."""

import argparse
import os
import shlex
from dataclasses import asdict
from pathlib import Path

from pipelines.command.actions import add_json, describe, print_json
from pipelines.command.parser import seconds
from pipelines.exit_codes import OK, TIMEOUT, USAGE, exit_codes_text
from pipelines.places.target import default_state_dir, local_target
from pipelines.projects.continuous import write_integration
from pipelines.projects.project import project_of
from pipelines.projects.starter.arguments import add_arguments
from pipelines.projects.trial.check import TIMEOUT_SECONDS, check
from pipelines.projects.trial.findings import TIMED_OUT, WRONG, Finding
from trainer.errors import ConfigError

NEW = f"""\
Writes a folder with a workload.py, a run.yaml, a schedule and a test from your data. Types,
ranges, dates, keys and the kind of the label are guessed from it, and comments say what was seen.
The folder runs as it is. Nothing is overwritten; of your code only the script of --script is
run, up to its trainyard.fit.

  trainyard new churn --table customers.csv --label churned
  trainyard new flowers --images photos/
  trainyard new own --records tfrecords/ --label y
  trainyard new price --table houses.csv --script train.py
  trainyard new churn --ci

{exit_codes_text(OK, USAGE)}
"""
CHECK = f"""\
Tries a workload of your own in seconds: its declaration, run.yaml and requirements.txt, reading
some of the data, the model, its loss, the metrics of thresholds, two steps of training, the export,
and predictions. Each mistake is named with its file and line. Nothing is written into the folder.

  trainyard check churn/

{exit_codes_text(OK, USAGE, TIMEOUT)}
"""


def add_new(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `new`."""
    describe(parser, NEW)
    add_arguments(parser)
    parser.add_argument(
        "--ci",
        action="store_true",
        help="also, or alone for a folder that exists, write files for GitHub Actions and Cloud"
        " Build that check, run and submit it, and environments/ for --env, into this folder",
    )
    parser.set_defaults(command=_new)


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `check`."""
    describe(parser, CHECK)
    parser.add_argument(
        "workload", metavar="WORKLOAD", help="a folder with a workload.py, or a package.module"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT_SECONDS,
        metavar="TIME",
        help="end a part of your code, such as the model, after this time; default: %(default)s s",
    )
    add_json(parser, "the findings as JSON")
    parser.set_defaults(command=_check)


def _new(arguments: argparse.Namespace) -> int:
    has_data = arguments.table or arguments.images or arguments.records
    if has_data or not arguments.ci:
        from pipelines.projects.starter.start import start

        start(arguments)
    return _integrate(arguments.folder) if arguments.ci else OK


def _integrate(folder: Path) -> int:
    """Write the files for continuous integration of a workload into the current folder."""
    project = project_of(str(folder))
    path = Path(os.path.relpath(folder))
    if project is None or ".." in path.parts:
        raise ConfigError(f"{folder} must be a folder with a workload.py below this one")
    written, kept = write_integration(path.as_posix(), name=project.name, root=Path())
    print(f"wrote {', '.join(written)}")
    for name in kept:
        print(f"note: {name} stays as it is")
    return OK


def _check(arguments: argparse.Namespace) -> int:
    findings = []
    data_root = local_target(default_state_dir()).data_root
    for finding in check(
        arguments.workload, data_root=data_root, timeout_seconds=arguments.timeout
    ):
        if not arguments.json:
            _show(finding)
        findings.append(finding)
    if arguments.json:
        print_json([asdict(finding) for finding in findings])
    num_problems = sum(len(finding.problems) for finding in findings)
    mistakes = "1 mistake" if num_problems == 1 else f"{num_problems} mistakes"
    code, said = USAGE, f"{mistakes} in {arguments.workload}"
    if not num_problems:
        run = f"trainyard run {shlex.quote(arguments.workload)}"
        code, said = OK, f"no mistake found; run it: {run}"
        if any(finding.state == TIMED_OUT for finding in findings):
            said = f"no mistake so far in {arguments.workload}; the rest was not tried"
            code = TIMEOUT
    if not arguments.json:
        print(said)
    return code


def _show(finding: Finding) -> None:
    seconds = f"  {finding.seconds:.1f} s" if finding.seconds else ""
    print(f"{finding.name:<16} {finding.state:<9} {finding.detail}{seconds}".rstrip(), flush=True)
    for problem in finding.problems if finding.state == WRONG else ():
        print(f"  {problem}", flush=True)
