"""`trainyard endpoints watch`: skew and drift of an endpoint's requests."""

import argparse
import subprocess
import sys
from typing import Any

from pipelines.command.actions import add_action, describe
from pipelines.command.target_options import api_of
from pipelines.exit_codes import FAILED, GATED, OK, USAGE, exit_codes_text
from trainer.runtime.processes import ending_with_parent

WATCH_TIMEOUT_SECONDS = 600
WATCH = f"""\
Compares the last logged requests of an endpoint with the data that its model has learnt from (skew)
and with as many requests before them (drift). Each feature is shown with its largest distance, the
limit and the value whose share changed most. The limit is the threshold, or more if so few requests
differ by more by chance.

  trainyard endpoints watch taxi
  trainyard endpoints watch taxi --last 5000 --threshold psi=0.2

{exit_codes_text(OK, FAILED, USAGE)}, {GATED} a feature has changed
"""


def add_watch(actions: Any) -> None:
    """Add the action `watch` of endpoints."""
    text = "compare the logged requests with the training data and with earlier requests"
    watch = add_action(actions, "watch", _watch, text, "ENDPOINT")
    describe(watch, WATCH)
    watch.add_argument("--last", type=int, metavar="N", help="requests to compare; 1000")
    watch.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="DISTANCE=VALUE",
        dest="thresholds",
        help="psi or pixels; may be repeated",
    )
    watch.add_argument("--json", action="store_true", help="print the result as JSON")


def _watch(arguments: argparse.Namespace) -> int:
    options = [f"--threshold={threshold}" for threshold in arguments.thresholds]
    options += [f"--last={arguments.last}"] if arguments.last is not None else []
    options += ["--json"] if arguments.json else []
    with api_of(arguments) as api:
        options += [f"--project={api.project}", f"--location={api.location}"]
        # A process of its own: a model's workload may be code of the user.
        command = ending_with_parent("components.endpoint.watch", f"--endpoint={arguments.name}")
        sys.stdout.flush()
        done = subprocess.run([*command, *options], check=False, timeout=WATCH_TIMEOUT_SECONDS)
    return done.returncode
