"""`trainyard`: build the parser, run one command, turn errors into exit codes."""

import argparse
import signal
import subprocess
import sys

from components.errors import StepError
from components.shared.vertex.errors import VertexError
from pipelines.command.output import open_output
from pipelines.command.parser import SHELLS, Parser, PrintCompletion, ShowVersion, words_of
from pipelines.errors import LocalServiceError, RegistryError, ResourceError, with_place
from pipelines.exit_codes import FAILED, INTERRUPTED, OK, USAGE
from trainer import Json
from trainer.errors import ConfigError, InputError

# Name, the function of pipelines.command that adds the arguments, and help. The function's module
# is imported only when the command is used.
COMMANDS = (
    ("new", "projects:add_new", "write the folder of a workload from your data"),
    (
        "check",
        "projects:add_check",
        "try a workload of your own on some of its data, and name every mistake",
    ),
    ("settings", "settings:add_settings", "list the settings of a workload's runs"),
    ("run", "running.submit:add_run", "run the pipeline, wait for its end and tear it down"),
    ("plan", "running.submit:add_plan", "print what a run would do now, why, and its price"),
    ("submit", "running.submit:add_submit", "start a pipeline run"),
    ("step", "running.step:add_step", "execute one task of an earlier run again, on this machine"),
    ("tune", "training.tune:add_tune", "train with different settings, and name the best"),
    (
        "runs",
        "running.runs:add_runs",
        "pipeline runs: list, show, diff, logs, cancel, resume, delete",
    ),
    (
        "teardown",
        "running.teardown:add_teardown",
        "list runs that ended without their teardown, and remove what they left",
    ),
    ("report", "running.report:add_report", "write and open the report of a run"),
    (
        "reproduce",
        "running.reproduce:add_reproduce",
        "make a model version again from its record, and compare bit by bit",
    ),
    (
        "lineage",
        "running.lineage:add_lineage",
        "what a version was made of; whom a file has reached",
    ),
    ("cluster", "training.clusters:add_cluster", "cluster files: explain, commands"),
    (
        "jobs",
        "training.jobs:add_jobs",
        "training jobs: submit, list, show, logs, wait, evaluate, cancel, delete",
    ),
    (
        "models",
        "serving.models:add_models",
        "models and their versions: list, show, history, upload, set-default, rollback, hold, "
        "release, approve, reject, card, delete",
    ),
    (
        "endpoints",
        "serving.endpoints:add_endpoints",
        "prediction endpoints: list, predict, deploy, undeploy, log requests, watch, delete",
    ),
    ("predict", "serving.predict:add_predict", "predict the rows of files, without an endpoint"),
    (
        "schedule",
        "schedules:add_schedule",
        "recurring pipeline runs: apply, list, pause, resume, run-now, delete",
    ),
    (
        "compile",
        "packages:add_compile",
        "write a package for each workload: the pipeline with the workload's defaults",
    ),
    (
        "upload",
        "packages:add_upload",
        "upload a package to an Artifact Registry repository of the KFP format",
    ),
    ("image", "packages:add_image", "print the name of this source's image"),
    ("doctor", "doctor:add_doctor", "check machine, environment, state, service and project"),
    ("prune", "local_state:add_prune", "remove old runs of this machine, by age and size"),
)
EXAMPLES = """\
examples:
  trainyard run mnist                          the whole pipeline on this machine
  trainyard run churn/                         your own: a folder with a workload.py
  trainyard new churn --table customers.csv --label churned
  trainyard check churn/                       try it on some of its data, in seconds
  trainyard run mnist --set train.epochs=5 --set thresholds.accuracy=0.99
  trainyard run mnist --cluster configs/clusters/single.yaml --keep-endpoint
  trainyard tune taxi --set train.learning_rate=1e-4..1e-2 --trials 20 --parallel 2
  trainyard submit mnist --wait --set labels.team=vision
  trainyard submit dist/mnist.yaml --on vertex --project P --pipeline-root gs://BUCKET/runs
  trainyard cluster explain configs/clusters/mnist_standard_1.yaml
  trainyard jobs submit mnist --cluster configs/clusters/mnist_parameter_server.yaml --follow
  trainyard schedule apply --dry-run
  trainyard report                             what the newest run found, in one page
  trainyard runs resume mnist-20261121-093015-4f1c --wait
  trainyard step latest evaluate --set thresholds.accuracy=0.99
  trainyard prune --older-than 30d --dry-run
  trainyard models list
  trainyard predict taxi --input 'trips/*.csv' --output predicted
  trainyard jobs logs latest --replica worker/1
"""
USAGE_ERRORS = (ConfigError, ResourceError)
FAILURES = (
    StepError,
    InputError,
    VertexError,
    RegistryError,
    LocalServiceError,
    OSError,
    subprocess.TimeoutExpired,
)
LOGIN = "Log in with `gcloud auth application-default login`; see docs/vertex-setup.md."


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    open_output()
    try:
        try:
            return _main(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # also after --help
    except BrokenPipeError:  # the reader of our output has closed the pipe, as `head` does
        return FAILED
    except OSError as error:
        return _fail(f"the output cannot be written: {error.strerror}", code=FAILED)


def _main(argv: list[str]) -> int:
    arguments = argparse.Namespace()
    try:
        arguments = parse(argv)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
        code: int | None = arguments.command(arguments)
        return code or OK
    except BrokenPipeError:
        raise
    except USAGE_ERRORS as error:
        places = vars(arguments).get("places", {})
        problems = error.problems if isinstance(error, ConfigError) else (str(error),)
        said = "\n".join(with_place(problem, places) for problem in problems)
        return _fail(said, code=USAGE)
    except FAILURES as error:
        return _fail(_message(error), code=FAILED)
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
    arguments = argparse.Namespace()
    _, unknown = parser.parse_known_args(argv[:end], arguments)
    if unknown:
        parser.refuse(unknown, argv[:end] if "flags" in arguments else [])
    if getattr(arguments, "env", ""):
        from pipelines.command.environments import with_environment  # reads YAML

        words, places = with_environment(argv[:end], arguments)
        arguments = _parser().parse_args(words)
        arguments.places = places
    if flags := argv[end + 1 :]:
        if not hasattr(arguments, "flags"):
            parser.error(f"this command passes no flags to the trainer: -- {' '.join(flags)}")
        arguments.flags = flags
    return arguments


def _parser() -> Parser:
    parser = Parser(
        prog="trainyard",
        description="A pipeline from raw data to a served, versioned model; on Vertex AI or here.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "print the versions of Trainyard, Python, KFP, TensorFlow and Google's packages"
    parser.add_argument("--version", action=ShowVersion, nargs=0, help=text)
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print the script that completes commands, options, settings and names in a shell",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, function, text in COMMANDS:
        arguments = f"pipelines.command.{function}"
        commands.add_parser(name, help=text, description=text, arguments=arguments)
    return parser


def words_to_complete() -> Json:
    """Return commands, settings and built-in workloads, for `completion`."""
    from pipelines.config.built_in import RUNS
    from pipelines.config.settings import declared_settings

    settings = {f"{key}=": schema["description"] for key, schema in declared_settings().items()}
    workloads = dict.fromkeys(RUNS, "built-in")
    return {"commands": words_of(_parser()), "settings": settings, "workloads": workloads}


def _is_login_error(error: Exception) -> bool:
    from google.auth.exceptions import GoogleAuthError

    return isinstance(error, GoogleAuthError)


def _message(error: Exception) -> str:
    """Return the message of an error; of one of the system, its files and reason, no number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    files = [str(name) for name in (error.filename, error.filename2) if name]
    return ": ".join([" → ".join(files), error.strerror] if files else [error.strerror])


def _fail(message: str, *, code: int) -> int:
    print(f"trainyard: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
