"""`trainyard`: build the parser, run one command, turn errors into exit codes."""

import argparse
import os
import signal
import sys

from components.errors import StepError
from components.vertex.errors import VertexError
from pipelines.command.clusters import add_cluster_commands
from pipelines.command.endpoints import add_endpoints
from pipelines.command.jobs import add_jobs
from pipelines.command.jobs_submit import add_jobs_submit
from pipelines.command.local_state import add_local_state_commands
from pipelines.command.models import add_models
from pipelines.command.packages import add_package_commands
from pipelines.command.parser import Parser, ShowVersion
from pipelines.command.predict import add_predict
from pipelines.command.projects import add_project_commands
from pipelines.command.report import add_report
from pipelines.command.runs import add_runs
from pipelines.command.schedules import add_schedule_commands
from pipelines.command.submit import add_submit_commands
from pipelines.command.vertex_setup import add_vertex_setup
from pipelines.exit_codes import FAILED, INTERRUPTED, USAGE
from pipelines.package.registry import RegistryError
from pipelines.resources import ResourceError
from pipelines.target.local_service import ServiceError
from trainer.errors import ConfigError

EXAMPLES = """\
examples:
  trainyard run mnist                          the whole pipeline on this machine
  trainyard run churn/                         your own: a folder with a workload.py
  trainyard new churn --table customers.csv --label churned
  trainyard check churn/                       try it on some of its data, in seconds
  trainyard run mnist --set train.epochs=5 --set thresholds.accuracy=0.99
  trainyard run mnist --cluster configs/clusters/single.yaml --keep-endpoint
  trainyard submit mnist --wait --set labels.team=vision
  trainyard submit dist/mnist.yaml --on vertex --project P --pipeline-root gs://BUCKET/runs
  trainyard cluster explain configs/clusters/mnist_standard_1.yaml
  trainyard jobs submit mnist --cluster configs/clusters/mnist_parameter_server.yaml --follow
  trainyard schedule apply --dry-run
  trainyard report                             what the newest run found, in one page
  trainyard runs resume mnist-20261121-093015 --wait
  trainyard prune --keep 10 --older-than 30d --dry-run
  trainyard environments list
  trainyard models list
  trainyard predict taxi --input 'trips/*.csv' --output predicted
  trainyard jobs logs JOB_ID --replica worker/1
"""
USAGE_ERRORS = (ConfigError, ResourceError)
FAILURES = (StepError, VertexError, RegistryError, ServiceError, OSError)
LOGIN = "Log in with `gcloud auth application-default login`; see docs/vertex-setup.md."


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        try:
            return _main(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # also after --help
    except BrokenPipeError:  # the reader of our output has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _main(argv: list[str]) -> int:
    arguments = parse(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    try:
        code: int = arguments.command(arguments)
        return code
    except BrokenPipeError:
        raise
    except USAGE_ERRORS as error:
        return _fail(str(error), code=USAGE)
    except FAILURES as error:
        return _fail(str(error), code=FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if not _is_login_error(error):
            raise
        return _fail(f"{error}\n{LOGIN}", code=FAILED)


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the arguments; those after -- are the trainer's, for commands with `flags`."""
    parser = _parser()
    end = argv.index("--") if "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:end])
    if flags := argv[end + 1 :]:
        if not hasattr(arguments, "flags"):
            parser.error(f"this command passes no flags to the trainer: -- {' '.join(flags)}")
        arguments.flags = flags
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="trainyard",
        description="A pipeline from raw data to a served, versioned model; on Vertex AI or here.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "print the versions of Trainyard, Python, KFP, TensorFlow and Google's packages"
    parser.add_argument("--version", action=ShowVersion, nargs=0, help=text)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_project_commands(commands)
    add_submit_commands(commands)
    add_runs(commands)
    add_report(commands)
    add_cluster_commands(commands)
    add_jobs_submit(add_jobs(commands))
    add_models(commands)
    add_endpoints(commands)
    add_predict(commands)
    add_schedule_commands(commands)
    add_package_commands(commands)
    add_local_state_commands(commands)
    add_vertex_setup(commands)
    return parser


def _is_login_error(error: Exception) -> bool:
    from google.auth.exceptions import GoogleAuthError

    return isinstance(error, GoogleAuthError)


def _fail(message: str, *, code: int) -> int:
    print(f"trainyard: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
