"""`trainyard runs resume`: continue a run that has ended, as a new run."""

import argparse
from functools import partial

from pipelines.command.actions import describe
from pipelines.command.output import add_output, with_result
from pipelines.command.running.execution import start_run
from pipelines.command.running.submit import EXIT_CODES
from pipelines.command.target_options import add_containers, add_target, service_of, target_of
from pipelines.resources.kinds import RUN
from pipelines.runs.resume import await_end, explain_resume, plan_resume

RESUME_HELP = f"""\
Sends the request of a run again, with the same parameters, under a new name. The steps that
succeeded come from the cache; training continues from its last checkpoint. A repeated `trainyard
run` with the same settings does the same. A run that was killed, or is being cancelled, is first
ended by its exit task.

  trainyard runs resume mnist-20261121-093015-4f1c --wait

With --wait, {EXIT_CODES}
"""


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `runs resume`."""
    describe(parser, RESUME_HELP)
    parser.add_argument("name", metavar="RUN")
    add_target(parser)
    parser.add_argument("--wait", action="store_true", help="wait until the run has ended")
    add_output(parser)
    add_containers(parser)
    parser.set_defaults(command=partial(with_result, _resume), tears_down=False)


def _resume(arguments: argparse.Namespace) -> int:
    target = target_of(arguments, needs_bucket=False)
    with service_of(arguments, target) as service:
        api = target.connect()
        runs_image = service is None or arguments.containers
        run = RUN.id_called(api, arguments.name)
        await_end(api, run, say=partial(print, flush=True))
        submission = plan_resume(api, run, runs_image=runs_image)
        print(explain_resume(api, run), flush=True)
        return start_run(arguments, submission, target=target, service=service)
