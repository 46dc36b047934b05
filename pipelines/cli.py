"""`trainyard`: parse, call one function, print."""

import argparse
import contextlib
import dataclasses
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from components.prepare_examples.errors import DataError
from components.vertex_api import VertexApi, VertexError, connect
from pipelines import resources
from pipelines.config import RUNS, ConfigError, RunConfig, named_run, read_cluster, with_settings
from pipelines.local_service import LocalService, ServiceError, local_service
from pipelines.target import Target, TargetError, default_state_dir, local_target, vertex_target

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_GATED = 3
EXIT_INTERRUPTED = 130

EXAMPLES = """\
examples:
  trainyard run mnist                          the whole pipeline on this machine
  trainyard run mnist --set train.epochs=5 --set thresholds.accuracy=0.99
  trainyard run mnist --cluster configs/clusters/single.yaml --keep-endpoint
  trainyard run mnist --on vertex --project my-project --pipeline-root gs://my-bucket/runs
  trainyard models list
  trainyard jobs logs JOB_ID --replica worker/1
"""
RUN_HELP = """\
Runs the pipeline: prepare examples, train, evaluate, and if the metrics pass the thresholds,
upload a model version, deploy it, check its predictions and promote it. Then tear down.

exit codes: 0 promoted, 1 failed, 2 bad usage, 3 the metrics did not pass, 130 interrupted
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end what was started
    try:
        code: int = arguments.command(arguments)
        return code
    except (ConfigError, TargetError, resources.ResourceError) as error:
        return _fail(str(error), code=EXIT_USAGE)
    except (DataError, VertexError, ServiceError, OSError) as error:
        return _fail(str(error), code=EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trainyard",
        description="One DAG from raw data to a served, versioned model; on Vertex AI or here.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_compile(commands)
    _add_jobs(commands)
    _add_models(commands)
    _add_endpoints(commands)
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
    run.add_argument("--keep-endpoint", action="store_true", help="leave the model deployed")
    run.add_argument("--image", help="container image; default: named by a digest of the source")
    run.add_argument(
        "--data-dir", metavar="DIR", help="folder with raw data, one folder a workload"
    )
    run.add_argument("--service-account", help="Vertex AI: run as this service account")
    _add_target(run)
    run.set_defaults(command=_run)


def _add_compile(commands: Any) -> None:
    compile_ = commands.add_parser("compile", help="write the pipeline as one YAML file")
    compile_.add_argument(
        "--output", type=Path, default=Path("dist/train_and_deploy.yaml"), help="%(default)s"
    )
    compile_.add_argument("--image", help="container image; default: a digest of the source")
    compile_.set_defaults(command=_compile)


def _add_jobs(commands: Any) -> None:
    actions = _group(commands, "jobs", "training jobs: list, show, logs, cancel")
    _action(actions, "list", _jobs_list, "all jobs, newest first")
    _action(actions, "show", _jobs_show, "one job as Vertex AI answers it", "JOB_ID")
    logs = _action(actions, "logs", _jobs_logs, "what a job's replicas wrote", "JOB_ID")
    logs.add_argument("--replica", metavar="TASK", help="of one replica, as chief/0 or worker/1")
    _action(actions, "cancel", _jobs_cancel, "end a job", "JOB_ID")


def _add_models(commands: Any) -> None:
    actions = _group(commands, "models", "models and their versions: list, show, delete")
    _action(actions, "list", _models_list, "all models with their versions")
    _action(actions, "show", _models_show, "one model, or MODEL@VERSION", "MODEL")
    _action(actions, "delete", _models_delete, "a model, or only MODEL@VERSION", "MODEL")


def _add_endpoints(commands: Any) -> None:
    actions = _group(commands, "endpoints", "prediction endpoints: list, predict, delete")
    _action(actions, "list", _endpoints_list, "all endpoints and what they serve")
    predict = _action(actions, "predict", _endpoints_predict, "ask for predictions", "ENDPOINT")
    predict.add_argument(
        "--instances", type=Path, required=True, metavar="FILE", help='JSON: {"instances": [...]}'
    )
    _action(actions, "delete", _endpoints_delete, "undeploy all and delete", "ENDPOINT")


def _group(commands: Any, name: str, help_text: str) -> Any:
    group = commands.add_parser(name, help=help_text, description=help_text)
    return group.add_subparsers(required=True, metavar="ACTION")


def _action(
    actions: Any, name: str, command: Any, help_text: str, argument: str = ""
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=help_text, description=help_text
    )
    if argument:
        parser.add_argument("name", metavar=argument)
    _add_target(parser)
    parser.set_defaults(command=command)
    return parser


def _add_target(parser: argparse.ArgumentParser) -> None:
    target = parser.add_argument_group("where")
    target.add_argument("--on", choices=["local", "vertex"], default="local", help="%(default)s")
    target.add_argument("--project", help="Vertex AI; default: GOOGLE_CLOUD_PROJECT")
    target.add_argument("--location", help="Vertex AI; default: GOOGLE_CLOUD_REGION, us-central1")
    target.add_argument(
        "--pipeline-root", metavar="gs://…", help="Vertex AI; default: TRAINYARD_PIPELINE_ROOT"
    )
    target.add_argument(
        "--state-dir",
        type=Path,
        default=default_state_dir(),
        help="local state; default: TRAINYARD_DIR, or .trainyard here",
    )


def _target(arguments: argparse.Namespace) -> Target:
    state_dir = arguments.state_dir.absolute()
    data_dir = getattr(arguments, "data_dir", None)
    if arguments.on == "local":
        return local_target(state_dir, data_dir=data_dir)
    return vertex_target(
        state_dir,
        project=arguments.project,
        location=arguments.location,
        pipeline_root=arguments.pipeline_root,
        data_dir=data_dir,
    )


@contextlib.contextmanager
def _service(arguments: argparse.Namespace, target: Target) -> Iterator[LocalService | None]:
    """This machine's service for as long as the block lasts; nothing when the target is Vertex."""
    if arguments.on == "vertex":
        yield None
        return
    with local_service(target.state_dir / "vertex") as service:
        yield service


@contextlib.contextmanager
def _api(arguments: argparse.Namespace) -> Iterator[VertexApi]:
    target = _target(arguments)
    with _service(arguments, target):
        yield connect(target.project, target.location)


def _run(arguments: argparse.Namespace) -> int:
    from pipelines.epilogue import print_result
    from pipelines.run import RunOptions, execute, new_run_name

    config, target, console = _config(arguments), _target(arguments), Console()
    run = new_run_name(config.workload)
    console.print(f"[bold]{run}[/]: {config.cluster} ({config.cluster.strategy})", highlight=False)
    options = RunOptions(
        image=arguments.image,
        use_cache=not arguments.no_cache,
        keep_endpoint=arguments.keep_endpoint,
        service_account=arguments.service_account,
    )
    with _service(arguments, target) as service:
        if service:
            _fetch(config, target)
        result = execute(config, target=target, run=run, options=options, console=console)
        is_kept = arguments.keep_endpoint and result.is_promoted
        if service and is_kept:
            service.keep()
        print_result(result, config=config, target=target, is_kept=is_kept, console=console)
    return _exit_code(result)


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
    from components.prepare_examples.fetch import fetch

    fetch(config.workload, Path(target.data_root) / config.workload, trust_files=config.trust_files)


def _compile(arguments: argparse.Namespace) -> int:
    from pipelines.compile import compile_pipeline, default_image

    text = compile_pipeline(arguments.image or default_image())
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
    print(arguments.output)
    return 0


def _jobs_list(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_table(resources.jobs_table(api))


def _jobs_show(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_json(resources.get_job(api, arguments.name))


def _jobs_logs(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        for line in resources.job_log(api, arguments.name, replica=arguments.replica):
            print(line)
    return 0


def _jobs_cancel(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        resources.cancel_job(api, arguments.name)
    print(f"asked job {arguments.name} to end")
    return 0


def _models_list(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_table(resources.models_table(api))


def _models_show(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_json(resources.get_model(api, arguments.name))


def _models_delete(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        print(f"deleted {resources.delete_model(api, arguments.name)}")
    return 0


def _endpoints_list(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        return _print_table(resources.endpoints_table(api))


def _endpoints_predict(arguments: argparse.Namespace) -> int:
    instances = resources.read_instances(arguments.instances)
    with _api(arguments) as api:
        return _print_json(resources.predict(api, arguments.name, instances))


def _endpoints_delete(arguments: argparse.Namespace) -> int:
    with _api(arguments) as api:
        print(f"deleted {resources.delete_endpoint(api, arguments.name)}")
    return 0


def _print_table(table: resources.Table) -> int:
    shown = RichTable(*table.headings, box=None, pad_edge=False)
    for row in table.rows:
        shown.add_row(*row)
    Console().print(shown)
    return 0


def _print_json(value: Any) -> int:
    print(json.dumps(value, indent=2))
    return 0


def _fail(message: str, *, code: int) -> int:
    print(f"trainyard: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
