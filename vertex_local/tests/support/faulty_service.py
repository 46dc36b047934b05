"""`vertex-local serve` with injected faults (`faults.py`), to test clients with.

python -m vertex_local.tests.support.faulty_service serve --root DIR --faults SPEC
"""

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from vertex_local import cli, client, server
from vertex_local.http import server as http_server
from vertex_local.tests.support.faults import Faults, FaultyApplication

MODULE = "vertex_local.tests.support.faulty_service"


def command_with_faults(command: Sequence[str]) -> list[str]:
    """Return the command of a service; of one with `--faults`, the command of this module."""
    words = list(command)
    return [MODULE if w == client.SERVE[2] else w for w in words] if "--faults" in words else words


def inject(faults: Faults) -> None:
    """Let the services of this process fail as specified."""
    start_http, make_service = http_server.start, server._service

    def start(
        application: Any, listener: Any, make_forward: Callable[[Any], Any], **options: Any
    ) -> Any:
        faulty = FaultyApplication(application, faults, threading.Event())
        # Requests that are forwarded past the application would not fail.
        return start_http(faulty, listener, lambda http: make_forward(http) and None, **options)

    def make_slow_service(*arguments: Any, **options: Any) -> Any:
        service = make_service(*arguments, **options)
        service.slow_deploy_seconds = faults.slow_deploy_seconds
        return service

    http_server.start, server._service = start, make_slow_service  # type: ignore[assignment]


def main(arguments: list[str]) -> int:
    """Serve; return the exit code."""
    place = arguments.index("--faults")
    inject(Faults.parse(arguments[place + 1]))
    return cli.main([*arguments[:place], *arguments[place + 2 :]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
