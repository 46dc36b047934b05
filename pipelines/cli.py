"""`trainyard`: parse, call one function, print."""

import argparse
import contextlib
import dataclasses
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from components.errors import StepError
from components.prepare_examples.errors import DataError
from components.vertex.api import VertexError
from pipelines import resources
from pipelines.command.clusters import add_cluster_commands, warn_of_gpus, warn_of_restarts
from pipelines.command.environments import add_environments
from pipelines.command.image import add_image
from pipelines.command.jobs import add_job_commands
from pipelines.command.jobs_submit import add_submit
from pipelines.command.models_endpoints import add_endpoints, add_models
from pipelines.command.parser import Parser
from pipelines.command.predict import add_predict
from pipelines.command.prune import add_prune
from pipelines.command.runs import EXIT_GATED, add_keep_endpoint, add_run_commands
from pipelines.command.schedules import add_schedule_commands
from pipelines.command.target_options import add_target, service_of, target_of
from pipelines.command.upload import add_upload
from pipelines.command.versions import ShowVersion
from pipelines.command.vertex_setup import add_vertex_setup
from pipelines.config import RUNS, RunConfig, named_run, read_cluster, with_settings
from pipelines.jobs.cores import warn_of_cores
from pipelines.package.registry import RegistryError
from pipelines.runs.on_failure import add_on_failure, check_command, tell
from pipelines.target.containers import add_containers
from pipelines.target.local_service import ServiceError
from pipelines.target.places import Target, TargetError
from trainer.config.settings import ConfigError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

EXAMPLES = """\
examples:
  trainyard run mnist                          the whole pipeline on this machine
  trainyard run mnist --set train.epochs=5 --set thresholds.accuracy=0.99
  trainyard run mnist --cluster configs/clusters/single.yaml --keep-endpoint
  trainyard submit mnist --wait --set labels.team=vision
  trainyard submit dist/mnist.yaml --on vertex --project P --pipeline-root gs://BUCKET/runs
  trainyard cluster explain configs/clusters/mnist_standard_1.yaml
  trainyard jobs submit mnist --cluster configs/clusters/mnist_parameter_server.yaml --follow
  trainyard schedule apply --dry-run
  trainyard runs resume mnist-20261121-093015 --wait
  trainyard prune --keep 10 --older-than 30d --dry-run
  trainyard environments list
  trainyard models list
  trainyard jobs logs JOB_ID --replica worker/1
"""
LOGIN = "Log in with `gcloud auth application-default login`; docs/vertex-setup.md tells the rest."
RUN_HELP = """\
Runs the pipeline: prepare examples, train, evaluate, and if the metrics pass the thresholds,
check the prediction server, upload a model version, deploy it, move the traffic and promote it.
Then tear down; an endpoint that served before the run serves the promoted version after it.

exit codes: 0 promoted, 1 failed, 2 bad usage, 3 the metrics did not pass, 130 interrupted
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    try:
        try:
            return _main(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # of --help, too
    except BrokenPipeError:  # whoever reads our output has had enough of it, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _main(argv: list[str]) -> int:
    arguments = parse(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end what was started
    try:
        code: int = arguments.command(arguments)
        return code
    except BrokenPipeError:
        raise
    except (ConfigError, TargetError, resources.ResourceError) as error:
        return _fail(str(error), code=EXIT_USAGE)
    except (DataError, StepError, VertexError, RegistryError, ServiceError, OSError) as error:
        return _fail(str(error), code=EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if not _is_login_error(error):
            raise
        return _fail(f"{error}\n{LOGIN}", code=EXIT_FAILED)


def parse(argv: list[str]) -> argparse.Namespace:
    """The arguments; what is after -- goes to the trainer, by commands that have `flags`."""
    parser = _parser()
    cut = argv.index("--") if "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:cut])
    if flags := argv[cut + 1 :]:
        if not hasattr(arguments, "flags"):
            parser.error(f"this command hands nothing on to the trainer: -- {' '.join(flags)}")
        arguments.flags = flags
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="trainyard",
        description="One DAG from raw data to a served, versioned model; on Vertex AI or here.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "print the versions of Trainyard, Python, KFP, TensorFlow and Google's packages"
    parser.add_argument("--version", action=ShowVersion, nargs=0, help=text)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_compile(commands)
    add_run_commands(commands)
    add_cluster_commands(commands)
    add_submit(add_job_commands(commands))
    add_upload(add_models(commands))
    add_predict(add_endpoints(commands))
    add_schedule_commands(commands)
    add_prune(commands)
    add_environments(commands)
    add_image(commands)
    add_vertex_setup(commands)
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run the pipeline and wait for its end",
        description=RUN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("workload", metavar="WORKLOAD", help=f"one of: {', '.join(RUNS)}")
    run.add_argument("--cluster", type=Path, metavar="FILE", help="cluster file: configs/clusters")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="change a setting, as train.epochs=5; may be repeated; a wrong key lists all",
    )
    run.add_argument("--no-cache", action="store_true", help="run every step anew")
    add_keep_endpoint(run)
    run.add_argument("--image", help="container image; default: named by a digest of the source")
    run.add_argument(
        "--data-dir", metavar="DIR", help="folder with raw data, one folder a workload"
    )
    run.add_argument("--service-account", help="Vertex AI: run as this service account")
    add_on_failure(run)
    add_containers(run)
    add_target(run)
    run.set_defaults(command=_run)


def _add_compile(commands: Any) -> None:
    text = "write a package for each workload: the pipeline with that workload's defaults"
    compile_ = commands.add_parser("compile", help=text, description=text)
    compile_.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"default: {', '.join(RUNS)}"
    )
    compile_.add_argument(
        "--output-dir", type=Path, default=Path("dist"), metavar="DIR", help="%(default)s"
    )
    compile_.add_argument(
        "--image", help="container image that Vertex AI can pull; default: a digest of the source"
    )
    compile_.set_defaults(command=_compile)


def _run(arguments: argparse.Namespace) -> int:
    from pipelines.package.image import default_image
    from pipelines.runs.ending import print_result
    from pipelines.runs.execute import execute, new_run_name
    from pipelines.runs.submit import RunOptions

    on_failure = check_command(arguments.on_failure)
    config, target, console = _config(arguments), target_of(arguments), Console()
    warn_of_restarts(config.cluster)
    run = new_run_name(config.workload)
    console.print(f"[bold]{run}[/]: {config.cluster} ({config.cluster.strategy})", highlight=False)
    image = arguments.image or default_image()
    options = RunOptions(
        image=image,
        use_cache=not arguments.no_cache,
        service_account=arguments.service_account,
    )
    with (
        _importing("pipelines.train_and_deploy"),
        service_of(arguments, target, image=image) as service,
    ):
        if service:
            warn_of_gpus(config.cluster)
            warn_of_cores(config.cluster)
            _fetch(config, target)
        result = execute(config, target=target, run=run, options=options, console=console)
        is_kept = config.keep_endpoint and result.is_promoted
        if service and is_kept:
            service.keep()
        print_result(result, config=config, target=target, is_kept=is_kept, console=console)
    if problem := tell(on_failure, result.summary, target=target):
        print(f"trainyard: {problem}", file=sys.stderr)
    return _exit_code(result)


@contextlib.contextmanager
def _importing(module: str) -> Iterator[None]:
    """Imports a module in the background: KFP takes as long as the service's start."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(importlib.import_module, module)
        yield


def _exit_code(result: Any) -> int:
    if result.is_interrupted:
        return EXIT_INTERRUPTED
    if result.summary.state != "SUCCEEDED":
        return EXIT_FAILED
    return 0 if result.is_promoted else EXIT_GATED


def _config(arguments: argparse.Namespace) -> RunConfig:
    config = named_run(arguments.workload)
    if arguments.cluster:
        config = dataclasses.replace(config, cluster=read_cluster(arguments.cluster))
    return with_settings(config, arguments.settings)


def _fetch(config: RunConfig, target: Target) -> None:
    """Has the raw data at hand before anything starts: a bad download is found in seconds."""
    from components.prepare_examples.raw_data.fetch import fetch

    options = config.prepare_options()
    if options.files or options.source != "files":
        return
    fetch(config.workload, Path(target.data_root) / config.workload, trust_files=config.trust_files)


def _compile(arguments: argparse.Namespace) -> int:
    from pipelines.package.compile import write_packages
    from pipelines.package.image import default_image

    for path in write_packages(
        arguments.output_dir,
        image=arguments.image or default_image(),
        workloads=tuple(arguments.workloads),
    ):
        print(path)
    return 0


def _is_login_error(error: Exception) -> bool:
    from google.auth.exceptions import GoogleAuthError

    return isinstance(error, GoogleAuthError)


def _fail(message: str, *, code: int) -> int:
    print(f"trainyard: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
