"""`trainyard report`: the report of a run."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from components.shared.vertex.api import VertexApi
from pipelines.command.actions import describe
from pipelines.command.target_options import add_target, target_of, with_api
from pipelines.resources.kinds import LATEST
from pipelines.runs.reports import report_run

REPORT = """\
Writes one HTML file on a run and opens it: verdict with reasons, metrics beside champion and
baseline, slices, curves, mistakes, data and its changes, learning curves, tasks, cluster, cost. It
needs no network. Every run writes it at its end; this command writes it again, also for older runs
and for runs on Vertex AI. `trainyard runs diff` compares two runs.

  trainyard report                                        the newest run
  trainyard report mnist-20261122-093015-4f1c --no-open   print the path only
"""


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `report`."""
    describe(parser, REPORT)
    text = "default: latest, the newest run"
    parser.add_argument("run", nargs="?", default=LATEST, metavar="RUN", help=text)
    parser.add_argument("--no-open", action="store_true", help="only print the path of the page")
    add_target(parser)
    parser.set_defaults(command=with_api(_report))


def _report(api: VertexApi, arguments: argparse.Namespace) -> None:
    target = target_of(arguments, needs_bucket=False)
    path = report_run(api, arguments.run, target=target)
    print(path)
    if not arguments.no_open:
        open_page(path)


def open_page(path: Path) -> None:
    """Open a page in the desktop's browser, at a terminal with a display, as every Mac has."""
    is_mac = sys.platform == "darwin"
    has_display = is_mac or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    program = shutil.which("open" if is_mac else "xdg-open")
    if program and has_display and sys.stdout.isatty():
        subprocess.Popen(
            [program, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
