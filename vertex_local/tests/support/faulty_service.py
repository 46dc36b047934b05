"""`vertex-local serve` with injected faults (`faults.py`), to test clients with.

python -m vertex_local.tests.support.faulty_service serve --root DIR --faults SPEC
"""

import sys
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from vertex_local import cli, client
from vertex_local.endpoints import deployments
from vertex_local.http import server as http_server
from vertex_local.models import resource as models
from vertex_local.tests.support.faults import Faults, FaultyApplication

MODULE = "vertex_local.tests.support.faulty_service"


def command_with_faults(command: Sequence[str]) -> list[str]:
    """Return the command of a service; of one with `--faults`, the command of this module."""
    words = list(command)
    return [MODULE if w == client.SERVE[2] else w for w in words] if "--faults" in words else words


def inject(faults: Faults) -> None:
    """Let the services of this process fail as specified."""
    start_http, deploy = http_server.start, deployments.start

    def start(
        application: Any, listener: Any, make_forward: Callable[[Any], Any], **options: Any
    ) -> Any:
        faulty = FaultyApplication(application, faults, threading.Event())
        # Requests that are forwarded past the application would not fail.
        return start_http(faulty, listener, lambda http: make_forward(http) and None, **options)

    def deploy_late(service: Any, name: str, *, process: Any, **options: Any) -> None:
        start_server = process.start

        def start_server_late(**how: Any) -> None:
            start_server(**how)
            service.closing.wait(faults.slow_deploy_seconds)

        process.start = start_server_late
        deploy(service, name, process=process, **{**options, "stop": threading.Event()})

    known: dict[str, Any] = {}

    def resolve(service: Any, name: str) -> Any:
        if name not in known:  # else it may be deleted meanwhile
            known[name] = models.resolve(service, name)
        return known[name]

    http_server.start = start  # type: ignore[assignment]
    if faults.slow_deploy_seconds:
        kept = SimpleNamespace(resolve=resolve, storage_of=models.storage_of)
        deployments.start, deployments.models = deploy_late, kept  # type: ignore[assignment]


def main(arguments: list[str]) -> int:
    """Serve; return the exit code."""
    place = arguments.index("--faults")
    inject(Faults.parse(arguments[place + 1]))
    return cli.main([*arguments[:place], *arguments[place + 2 :]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
