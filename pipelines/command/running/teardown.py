"""`trainyard teardown`: list and remove what lost runs left."""

import argparse

from components.shared.vertex.api import VertexApi
from components.teardown.lost import left_by, lost_runs
from components.teardown.run_resources import RunResources
from components.teardown.teardown import tear_down
from pipelines.command.actions import add_json, describe, print_json, print_table
from pipelines.command.target_options import add_target, with_api
from pipelines.errors import ResourceError
from pipelines.resources.kinds import RUN
from pipelines.resources.table import TextTable
from pipelines.runs.output.tables import moment

HELP = """\
A run ends with its teardown. If that was lost as well (no quota, an image that cannot be pulled), a
job may still run and a model may still be deployed, and cost. Without RUN, lists such runs and what
they left, and removes nothing. With RUN, cancels, undeploys and deletes what the run left; the
version that it promoted stays, deployed only if the run was to keep its endpoint.

  trainyard teardown --on vertex
  trainyard teardown mnist-20261121-093015 --on vertex
"""


def add_teardown(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `teardown`."""
    describe(parser, HELP)
    parser.add_argument("runs", metavar="RUN", nargs="*", help="default: list lost runs")
    add_json(parser, "the list as JSON")
    add_target(parser)
    parser.set_defaults(command=with_api(_teardown))


def _teardown(api: VertexApi, arguments: argparse.Namespace) -> int:
    if not arguments.runs:
        lost = [(resources, left_by(resources)) for resources in lost_runs(api)]
        lost = [(resources, left) for resources, left in lost if left]
        return _print_lost(lost, is_json=arguments.json)
    for run in arguments.runs:
        _tear_down(api, run)
    return 0


def _print_lost(lost: list[tuple[RunResources, list[str]]], *, is_json: bool) -> int:
    if is_json:
        return print_json([{"run": resources.run, "left": left} for resources, left in lost])
    if not lost:
        print("no run has ended without its teardown and left anything")
        return 0
    rows = [
        (resources.run, moment(resources.job["endTime"]), ", ".join(left))
        for resources, left in lost
    ]
    return print_table(TextTable(("RUN", "ENDED", "LEFT"), rows))


def _tear_down(api: VertexApi, run: str) -> None:
    resources = RunResources.of_run(api, run)
    if resources.job and not RUN.is_final(resources.job):
        raise ResourceError(
            f"run {run} is {RUN.state_of(resources.job)}; it tears itself down at its end "
            f"(trainyard runs cancel {run})"
        )
    left = left_by(resources)
    if not left and not resources.job:
        raise ResourceError(f"there is no run {run}, and nothing with its label")
    tear_down(RunResources.of_run(api, run), keep_endpoint=resources.keep_endpoint)
    print(f"run {run}: {'removed ' + ', '.join(left) if left else 'nothing was left'}")
