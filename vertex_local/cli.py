"""`vertex-local serve`, `vertex-local stop` and `vertex-local environments`."""

import argparse
import importlib.util
import logging
import os
import platform
import signal
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from vertex_local.http.faults import VARIABLE, Faults, FaultsError
from vertex_local.machine import root_lock
from vertex_local.processes.environments import cli as environments
from vertex_local.processes.environments import own

EXAMPLE = """\
example:
  vertex-local serve --root .trainyard/vertex
  curl http://127.0.0.1:8085/v1/projects/demo/locations/us-central1/models
  vertex-local serve --root .trainyard/vertex --containers --mount /data
  vertex-local stop --root .trainyard/vertex
  vertex-local environments list

and with Google's own SDK:
  from google.auth.credentials import AnonymousCredentials
  aiplatform.init(project="demo", location="us-central1", api_transport="rest",
                  api_endpoint="http://127.0.0.1:8085", credentials=AnonymousCredentials())

Open http://127.0.0.1:8085/ in a browser to see runs, jobs, models and endpoints.
"""
OWNER = """\
Its folder is readable by you alone, and it takes requests from processes of your uid alone, not
even from root's: for each connection it asks the kernel whose it is. Limits of that:
  - your programs are not told from each other; one that forwards (a proxy, ssh -L) does for anybody
  - a container that runs as another uid is refused, even when it is yours
  - prediction servers have ports of their own on 127.0.0.1, where every local user may ask them
"""
USAGE_ERROR = 2
MOST_CLOCK_SPEED = 100_000


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    if arguments.command == "stop":
        return _stop(arguments.root, timeout_seconds=arguments.timeout)
    if arguments.command == "environments":
        return environments.run(arguments)
    return _serve(
        arguments.root,
        port=arguments.port,
        is_verbose=arguments.verbose,
        is_while_used=arguments.while_used,
        preload=arguments.preload,
        clock_speed=arguments.clock_speed,
        has_containers=arguments.containers,
        mounts=arguments.mount,
        is_shared=arguments.shared,
        faults=arguments.faults,
    )


class _ShowVersion(argparse.Action):
    """Prints the versions and ends; they are read only then, and nothing is imported for it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        """Print the version of the service, and of what it runs with, a line each."""
        print(f"{parser.prog} {_version('trainyard')}\n  Python {platform.python_version()}")
        for package in ("kfp", "tensorflow"):
            print(f"  {package} {_version(package)}")
        parser.exit()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vertex-local",
        description="Vertex AI on this machine: pipelines, schedules, jobs, models, endpoints.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "print the versions of the service, Python, KFP and TensorFlow"
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help=text)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="serve | stop | environments"
    )
    text = "run the service until Ctrl-C or `stop`"
    serve = commands.add_parser(
        "serve",
        help=text,
        description=text,
        epilog=OWNER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_root(serve)
    serve.add_argument("--port", type=_port, help="default: 8085, or another if that is taken")
    serve.add_argument("--host", choices=["127.0.0.1"], default="127.0.0.1", help="loopback only")
    serve.add_argument(
        "--while-used",
        action="store_true",
        help="end with the last command that uses it, as one that a command starts: when no "
        "process holds a shared flock(2) on ROOT/users; to keep it, remove ROOT/ends-when-unused",
    )
    serve.add_argument(
        "--preload",
        type=_modules,
        default=[],
        metavar="MODULE[,MODULE…]",
        help="import these once, in the background; a `python -m …` of a job, a deployed model or "
        "a pipeline's step then starts as a fork of that process, which spares it the import",
    )
    serve.add_argument(
        "--clock-speed",
        type=_speed,
        default=1.0,
        metavar="N",
        help="let the clock of schedules go N times as fast, to see nights pass: with 5760 a day "
        "takes 15 seconds",
    )
    serve.add_argument(
        "--containers",
        action="store_true",
        help="run each replica, step and prediction server in a Docker container of the image that "
        "its request names, instead of as a process",
    )
    serve.add_argument(
        "--mount",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="with --containers: a folder that they see under the same path, as they do the root; "
        "may be repeated",
    )
    serve.add_argument(
        "--shared",
        action="store_true",
        help="take requests from every user of this machine, who can then run commands as you; "
        "default: from your own processes only",
    )
    serve.add_argument(
        "--faults",
        type=_faults,
        default=os.environ.get(VARIABLE),
        metavar="SPEC",
        help="let a share of all requests fail, to test clients: any=0.1 for a tenth, or by method "
        "and kind, 'GET:503=0.05,reset=0.02;POST+DELETE:429=0.1,late=0.1;late-seconds=2;"
        f"seed=7'; default: {VARIABLE}, for a service that another command starts",
    )
    serve.add_argument("--verbose", action="store_true", help="log every request")
    stop = commands.add_parser("stop", help="end the service that runs on a root folder")
    _add_root(stop)
    stop.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="default: %(default)s"
    )
    environments.add_environments(commands)
    return parser


def _add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", type=Path, required=True, metavar="DIR", help="folder of the service's state"
    )


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:  # noqa: PLR2004
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; allowed are 1 to 65535")
    return int(text)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= MOST_CLOCK_SPEED:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a speed; allowed is a number above 0, up to {MOST_CLOCK_SPEED}"
        )
    return speed


def _faults(text: str) -> Faults | None:
    try:
        return Faults.parse(text) if text else None
    except FaultsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _modules(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        package = name.partition(".")[0]
        if not package.isidentifier() or importlib.util.find_spec(package) is None:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not installed; give modules that this can import: {sys.executable}"
            )
    return names


def _serve(
    root: Path,
    *,
    port: int | None,
    is_verbose: bool,
    is_while_used: bool,
    preload: list[str],
    clock_speed: float,
    has_containers: bool,
    mounts: list[Path],
    is_shared: bool,
    faults: Faults | None,
) -> int:
    from vertex_local import server
    from vertex_local.api.database.opening import StoreError
    from vertex_local.machine.docker_engine import EngineError

    if problem := own.problem():
        return _fail(problem)
    logging.basicConfig(
        level=logging.DEBUG if is_verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        server.serve(
            root,
            port=port,
            on_ready=_say_ready,
            is_while_used=is_while_used,
            preload=preload,
            clock_speed=clock_speed,
            has_containers=has_containers,
            mounts=mounts,
            is_shared=is_shared,
            faults=faults,
        )
    except (root_lock.RootTakenError, server.PortTakenError, EngineError, StoreError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"The root folder {root} cannot be used: {error}")
    # All is closed. The interpreter's own way out may abort while a daemon thread is importing
    # the protos ("FATAL: exception not rethrown").
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def _say_ready(url: str) -> None:
    print(f"vertex-local is ready at {url}", flush=True)


def _stop(root: Path, *, timeout_seconds: float) -> int:
    pid = root_lock.holder(root)
    if pid is None:
        print(f"No service runs on {root}.")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_seconds
    while root_lock.holder(root) == pid:
        if time.monotonic() > deadline:
            return _fail(f"The service (pid {pid}) has not ended after {timeout_seconds:.0f} s.")
        time.sleep(0.05)
    print(f"The service on {root} has ended.")
    return 0


def _fail(message: str) -> int:
    print(f"vertex-local: {message}", file=sys.stderr)
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
