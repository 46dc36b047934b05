"""`vertex-local serve`, `exec` and `stop`."""

import argparse
import importlib.util
import logging
import math
import os
import platform
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from vertex_local import __version__, redirect
from vertex_local.client import TOKEN_VARIABLE, announced, service_pid, stop_service, token_of
from vertex_local.machine import buckets

EXAMPLE = """\
example:
  vertex-local serve --root vertex
  curl http://127.0.0.1:8085/v1/projects/demo/locations/us-central1/models
  vertex-local serve --root vertex --containers --mount /data
  vertex-local exec --root vertex -- python notebook.py
  vertex-local stop --root vertex

and with Google's own SDK:
  from google.auth.credentials import AnonymousCredentials
  aiplatform.init(project="demo", location="us-central1", api_transport="rest",
                  api_endpoint="http://127.0.0.1:8085", credentials=AnonymousCredentials())

Open http://127.0.0.1:8085/ in a browser to see runs, jobs, models and endpoints.
"""
OWNER = """\
Only you can read the root folder, and only processes of your uid can send requests (root cannot):
the service asks the kernel for the owner of each connection (on macOS: for ROOT/token). Limits:
  - all your processes are accepted, so a proxy of yours (or ssh -L) forwards requests of anyone
  - a container that runs as another uid is refused, even if you started it
  - prediction servers have their own ports on 127.0.0.1, which every local user can reach
"""
USAGE_ERROR = 2
MAX_CLOCK_SPEED = 100_000
SPEED = f"a speed; allowed: a number above 0, up to {MAX_CLOCK_SPEED}"


def main(argv: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    arguments = _parser().parse_args(argv)
    if arguments.command == "stop":
        return _stop(arguments.root, timeout_seconds=arguments.timeout)
    if arguments.command == "exec":
        return _execute(arguments.root, arguments.program)
    return _serve(arguments)


def _versions() -> str:
    try:
        kfp = metadata.version("kfp")
    except metadata.PackageNotFoundError:
        kfp = "not installed"
    return f"vertex-local {__version__}\n  Python {platform.python_version()}\n  kfp {kfp}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vertex-local",
        description="Vertex AI on this machine: pipelines, schedules, jobs, models, endpoints.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "print the versions of the service, Python and KFP"
    parser.add_argument("--version", action="version", version=_versions(), help=text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve | exec | stop")
    text = "run the service until Ctrl-C or `vertex-local stop`"
    serve = commands.add_parser(
        "serve",
        help=text,
        description=text,
        epilog=OWNER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_root(serve)
    _add_serve_options(serve)
    stop = commands.add_parser("stop", help="stop the service of a root folder")
    _add_root(stop)
    stop.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="default: %(default)s"
    )
    text = "run a program whose Google SDK sends everything to the service of a root folder"
    execute = commands.add_parser("exec", help=text, description=f"{text}, without a change to it")
    _add_root(execute)
    execute.add_argument("program", nargs="+", metavar="-- PROGRAM", help="python script.py …")
    return parser


def _add_serve_options(serve: argparse.ArgumentParser) -> None:
    add = serve.add_argument
    port = _number(int, 1, 65535, "a port; allowed: 1 to 65535")
    add("--port", type=port, help="on 127.0.0.1; default: 8085, or a free port if that is in use")
    add(
        "--while-used",
        action="store_true",
        help="stop when the last process that uses the service ends, that is, when no process "
        "holds a shared flock(2) on ROOT/users; remove ROOT/ends-when-unused to keep the service",
    )
    add(
        "--preload",
        type=_modules,
        action="append",
        default=[],
        metavar="MODULE[,MODULE…]",
        help="import these modules once, in a background process; each `python -m …` of a job, "
        "deployed model or pipeline step then starts as a fork of it, without the import time; "
        "may be repeated for modules that take long: a second process has them as well",
    )
    add(
        "--parallel",
        type=_number(int, 1, math.inf, "a number of tasks; allowed: 1 and more"),
        metavar="N",
        help="tasks of a pipeline run that may run at a time, if their inputs are ready; "
        "default: 16; the `parallelism` of a loop is obeyed below that",
    )
    add(
        "--clock-speed",
        type=_number(float, sys.float_info.min, MAX_CLOCK_SPEED, SPEED),
        default=1.0,
        metavar="N",
        help="run the clock of schedules N times as fast, to test them: with 5760 a day takes "
        "15 seconds",
    )
    add(
        "--containers",
        action="store_true",
        help="run each replica, step and prediction server in a Docker container of the image in "
        "its request, instead of as a process",
    )
    add(
        "--mount",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="with --containers: mount this folder under the same path in each container, like "
        "the root folder; may be repeated",
    )
    add(
        "--buckets",
        type=Path,
        metavar="DIR",
        help="gs://BUCKET is the folder DIR/BUCKET of this machine, in requests and in the steps' "
        "paths; with the extra `buckets` Google's Cloud Storage clients find it, too",
    )
    add(
        "--host-commands",
        action="store_true",
        help="run a container component of a pipeline as a program of this machine (echo, sh, "
        "python3), whatever its image; default: it is refused",
    )
    add(
        "--service-packages",
        action="store_true",
        help="run the steps of pipelines with the packages of this service, whatever their image, "
        "as VERTEX_LOCAL_SERVICE_PACKAGES=1 does; default: with what they install and a known "
        "image has",
    )
    add(
        "--shared",
        action="store_true",
        help="accept requests from every user of this machine, who can then run commands as you; "
        "default: only from your own processes",
    )
    add("--verbose", action="store_true", help="log every request")


def _add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", type=Path, required=True, metavar="DIR", help="folder of the service's files"
    )


def _number(kind: type[float], least: float, most: float, form: str) -> Callable[[str], float]:
    """Return the type of an option that is a number."""

    def number(text: str) -> float:
        with suppress(ValueError):
            if least <= kind(text) <= most:
                return kind(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not {form}")

    return number


def _modules(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        package = name.partition(".")[0]
        if not package.isidentifier() or importlib.util.find_spec(package) is None:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not installed; give modules that {sys.executable} can import"
            )
    return names


def _serve(arguments: argparse.Namespace) -> int:
    from vertex_local import server  # 0.3 s, which the other commands do not need
    from vertex_local.api.service import DEFAULT_PARALLEL
    from vertex_local.errors import StartError
    from vertex_local.pipelines.step_image import SERVICE_PACKAGES

    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if arguments.service_packages:
        os.environ[SERVICE_PACKAGES] = "1"  # of the service's processes
    options = server.ServeOptions(
        root=arguments.root,
        port=arguments.port,
        is_while_used=arguments.while_used,
        preload=arguments.preload,
        num_parallel=arguments.parallel or DEFAULT_PARALLEL,
        clock_speed=arguments.clock_speed,
        has_containers=arguments.containers,
        mounts=tuple(arguments.mount),
        runs_host_commands=arguments.host_commands,
        buckets=arguments.buckets,
        is_shared=arguments.shared,
    )
    try:
        server.serve(
            options, on_ready=lambda url: print(f"vertex-local is ready at {url}", flush=True)
        )
    except StartError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"The root folder {arguments.root} cannot be used: {error}")
    # Everything is closed. A normal exit of the interpreter may abort while a daemon thread is
    # importing a module ("FATAL: exception not rethrown").
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def _execute(root: Path, program: list[str]) -> int:
    record = announced(root) if service_pid(root) else {}
    if not record:
        return _fail(f"No service runs on {root}; start one: vertex-local serve --root {root}")
    os.environ |= redirect.variables(record["url"].removeprefix("http://"))
    if token := token_of(root):
        os.environ[TOKEN_VARIABLE] = token
    if record.get("storage"):
        os.environ["STORAGE_EMULATOR_HOST"] = record["storage"]
    if record.get("buckets"):
        os.environ[buckets.VARIABLE] = record["buckets"]
    try:
        os.execvp(program[0], program)
    except OSError as error:
        return _fail(f"{program[0]} cannot be run: {error.strerror}")


def _stop(root: Path, *, timeout_seconds: float) -> int:
    pid = service_pid(root)
    if not pid:
        print(f"No service runs on {root}.")
        return 0
    if not stop_service(root, timeout_seconds=timeout_seconds, signals=[signal.SIGTERM]):
        return _fail(f"The service (pid {pid}) is still running after {timeout_seconds:.0f} s.")
    print(f"The service on {root} has stopped.")
    return 0


def _fail(message: str) -> int:
    print(f"vertex-local: {message}", file=sys.stderr)
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
