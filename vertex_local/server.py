"""The service process: takes its root folder and a port, serves, and shuts down in order."""

import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, ModuleType

import waitress

from vertex_local import (
    containers,
    endpoints,
    jobs,
    lock,
    logs,
    models,
    operations,
    pipelines,
    protos,
    schedules,
)
from vertex_local.app import Application
from vertex_local.clock import Clock
from vertex_local.engine import find_engine
from vertex_local.faults import Faults, FaultyApplication
from vertex_local.service import Service
from vertex_local.store import Store
from vertex_local.warm import Warm

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
DEFAULT_PORT = 8085
THREADS = 16
MAX_BODY_BYTES = 64 * 1024 * 1024
CLOSE_TIMEOUT_SECONDS = 25.0
SIGNAL_CHECK_SECONDS = 0.5
STAY = "stay"
# In a root folder on which a service in containers runs, or was killed.
CONTAINERS_MARK = "containers"
# Those that hold a kind of resource each, in the order in which they recover after a restart.
MODULES: tuple[ModuleType, ...] = (
    operations,
    models,
    endpoints,
    jobs,
    pipelines,
    schedules,
    logs,
)


class PortTakenError(Exception):
    """The port that was asked for is in use."""


def serve(
    root: Path,
    *,
    port: int | None,
    on_ready: Callable[[str], None],
    is_tied_to_stdin: bool = False,
    preload: Sequence[str] = (),
    clock_speed: float = 1.0,
    has_containers: bool = False,
    mounts: Sequence[Path] = (),
    faults: Faults | None = None,
) -> None:
    """Serves `root` until SIGTERM or SIGINT; calls `on_ready` with the url when it answers.

    Tied to its stdin, it also ends when that ends, as it does when the starter is killed; a line
    `stay` on it unties it. It runs schedules only when it is not tied, by a clock that is
    `clock_speed` times as fast as the real one. `preload` names modules that a warm process imports
    once (`warm.py`). With containers, what it is given runs in those, and sees `mounts` and `root`.
    With `faults`, a share of the requests fails.

    Raises:
        engine.EngineError: containers cannot be run.
        lock.RootTakenError: another service runs on this root.
        PortTakenError: `port` was given and is in use.
    """
    root = root.resolve()
    root.mkdir(parents=True, exist_ok=True)
    held = lock.RootLock(root)
    lock.withdraw(root)  # what a killed service announced
    engine = find_engine(root, mounts) if has_containers else None
    _remove_left_containers(root)
    listener = _listen(port)
    stop = _stop_on_signals()
    stays = threading.Event()
    if is_tied_to_stdin:
        threading.Thread(target=_stop_on_end_of_stdin, args=(stop, stays), daemon=True).start()
    else:
        stays.set()
    service = _service(root, listener, preload)
    service.engine = engine
    if engine:
        (root / CONTAINERS_MARK).touch()
    service.stays, service.clock = stays, Clock(clock_speed)
    for module in MODULES:
        _call_if_defined(module, "recover", service)
    server = _start_http(service, listener, faults)
    protos.warm_up()
    port, seen = listener.getsockname()[1], engine.mounts if engine else None
    lock.announce(root, port=port, url=service.url, mounts=seen)
    on_ready(service.url)
    # Now and then: the handler runs in this thread, but a signal that another thread got, as may
    # happen while a child ends, does not wake it.
    while not stop.wait(SIGNAL_CHECK_SECONDS):
        pass
    _shut_down(service, server)
    del held


def _service(root: Path, listener: socket.socket, preload: Sequence[str]) -> Service:
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    service = Service(root=root, store=Store(root / "vertex.db"), url=url)
    if preload:
        service.warm = Warm(list(preload), log_path=root / "warm.log", closing=service.closing)
        service.warm.start()
    return service


def _remove_left_containers(root: Path) -> None:
    if (root / CONTAINERS_MARK).exists():
        containers.remove_root(root)
        (root / CONTAINERS_MARK).unlink()


def _listen(port: int | None) -> socket.socket:
    try:
        return _bind(DEFAULT_PORT if port is None else port)
    except OSError as error:
        if port is not None:
            raise PortTakenError(
                f"Port {port} cannot be used on {HOST}: {error.strerror}. "
                "Choose another --port, or leave it out to get a free one."
            ) from None
    return _bind(0)


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)  # connections queue up from here on, while the rest is starting
    except OSError:
        listener.close()
        raise
    return listener


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def handle(signum: int, frame: FrameType | None) -> None:
        logger.info("Stopping on %s", signal.Signals(signum).name)
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return stop


def _stop_on_end_of_stdin(stop: threading.Event, stays: threading.Event) -> None:
    for line in sys.stdin:
        if line.strip() == STAY:
            stays.set()
            return
    logger.info("Stopping: whoever started this service is gone")
    stop.set()


def _start_http(
    service: Service, listener: socket.socket, faults: Faults | None
) -> "waitress.server.TcpWSGIServer":
    routes = [route for module in MODULES for route in module.ROUTES]
    application = Application(service, routes)
    server = waitress.create_server(
        FaultyApplication(application, faults, service.closing) if faults else application,
        sockets=[listener],
        threads=THREADS,
        max_request_body_size=MAX_BODY_BYTES,  # a larger one is answered with 413
        channel_timeout=300,
        ident="vertex-local",
    )
    threading.Thread(target=server.run, name="http", daemon=True).start()
    return server


def _shut_down(service: Service, server: "waitress.server.TcpWSGIServer") -> None:
    """Ends every process within a bounded time; a supervisor that is left sees this one die."""
    service.closing.set()
    lock.withdraw(service.root)
    closers = [
        threading.Thread(target=_call_if_defined, args=(module, "close", service), daemon=True)
        for module in MODULES
    ]
    for closer in closers:
        closer.start()
    deadline = time.monotonic() + CLOSE_TIMEOUT_SECONDS
    for closer, module in zip(closers, MODULES, strict=True):
        closer.join(max(0.0, deadline - time.monotonic()))
        if closer.is_alive():
            logger.warning("%s did not close in %.0f s", module.__name__, CLOSE_TIMEOUT_SECONDS)
    if service.warm:
        service.warm.close()
    _remove_left_containers(service.root)
    server.trigger.pull_trigger(server.close)


def _call_if_defined(module: ModuleType, function: str, service: Service) -> None:
    """Calls `module.function(service)`; one module's failure does not stop the others."""
    try:
        getattr(module, function, lambda service: None)(service)
    except Exception:
        logger.exception("%s.%s failed", module.__name__, function)
