"""The service process: takes its root folder and a port, serves, and shuts down in order."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, ModuleType

from vertex_local import logs
from vertex_local.api import operations, protos
from vertex_local.api.database.reserve import Reserve
from vertex_local.api.database.store import Store
from vertex_local.api.service import Service
from vertex_local.app import Application
from vertex_local.endpoints import resource as endpoints
from vertex_local.http import peers
from vertex_local.http import server as http_server
from vertex_local.http.faults import Faults, FaultyApplication
from vertex_local.jobs import resource as jobs
from vertex_local.machine import docker as containers
from vertex_local.machine import root_lock, users
from vertex_local.machine.clock import Clock
from vertex_local.machine.docker_engine import find_engine
from vertex_local.machine.files import make_private
from vertex_local.models import resource as models
from vertex_local.pipelines import resource as pipelines
from vertex_local.processes import leftovers
from vertex_local.processes.warm import Warm
from vertex_local.schedules import resource as schedules

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
PRIVATE_UMASK = 0o077  # of all that it runs, too: environments and data may be secret
DEFAULT_PORT = 8085
CLOSE_TIMEOUT_SECONDS = 25.0
SIGNAL_CHECK_SECONDS = 0.5
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
    is_while_used: bool = False,
    preload: Sequence[str] = (),
    clock_speed: float = 1.0,
    has_containers: bool = False,
    mounts: Sequence[Path] = (),
    is_shared: bool = False,
    faults: Faults | None = None,
) -> None:
    """Serves `root` until SIGTERM or SIGINT; calls `on_ready` with the url when it answers.

    Run while used, it also ends with its last user, unless one of them keeps it (`users.py`). It
    runs schedules only when it stays, by a clock that is `clock_speed` times as fast as the real
    one. `preload` names modules that a warm process imports once (`processes/warm.py`). With
    containers, what it is given runs in those, and sees `mounts` and `root`. It takes requests from
    its own user only, or from every user of this machine if it is shared; its files are private in
    either case. With `faults`, a share of the requests fails.

    Raises:
        engine.EngineError: containers cannot be run.
        lock.RootTakenError: another service runs on this root.
        StoreError: the database of this root cannot be used; it is left as it is.
        PortTakenError: `port` was given and is in use.
    """
    os.umask(PRIVATE_UMASK)
    root = root.resolve()
    make_private(root)
    Reserve(root).use_if_full()  # what follows writes small files
    held = root_lock.RootLock(root)
    root_lock.withdraw(root)  # what a killed service announced
    store = Store(root / "vertex.db")
    leftovers.remove(root)
    engine = find_engine(root, mounts) if has_containers else None
    _remove_left_containers(root)
    listener = _listen(port, peers.OwnersSocket if not is_shared else socket.socket)
    if is_shared:
        logger.warning(
            "Shared: every user of this machine can run commands as uid %d here", os.geteuid()
        )
    leftovers.mark_environment(root)
    stop = _stop_on_signals()
    users.announce(root, is_while_used=is_while_used)
    used = users.end_when_unused(root, stop) if is_while_used else None
    service = _service(root, store, listener, preload)
    service.engine = engine
    if engine:
        (root / CONTAINERS_MARK).touch()
    service.clock = Clock(clock_speed)
    if not is_while_used:
        service.stays.set()
    for module in MODULES:
        _call_if_defined(module, "recover", service)
    server = _start_http(service, listener, faults)
    protos.warm_up()
    port, seen = listener.getsockname()[1], engine.mounts if engine else None
    root_lock.announce(root, port=port, url=service.url, mounts=seen)
    on_ready(service.url)
    # Now and then: the handler runs in this thread, but a signal that another thread got, as may
    # happen while a child ends, does not wake it.
    while not stop.wait(SIGNAL_CHECK_SECONDS):
        if users.stays(root):
            service.stays.set()
    _shut_down(service, server)
    del held, used


def _service(root: Path, store: Store, listener: socket.socket, preload: Sequence[str]) -> Service:
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    service = Service(root=root, store=store, url=url)
    if preload:
        service.warm = Warm(list(preload), log_path=root / "warm.log", closing=service.closing)
        service.warm.start()
    return service


def _remove_left_containers(root: Path) -> None:
    if (root / CONTAINERS_MARK).exists():
        containers.remove_root(root)
        (root / CONTAINERS_MARK).unlink()


def _listen(port: int | None, kind: type[socket.socket]) -> socket.socket:
    try:
        return _bind(DEFAULT_PORT if port is None else port, kind)
    except OSError as error:
        if port is not None:
            raise PortTakenError(
                f"Port {port} cannot be used on {HOST}: {error.strerror}. "
                "Choose another --port, or leave it out to get a free one."
            ) from None
    return _bind(0, kind)


def _bind(port: int, kind: type[socket.socket]) -> socket.socket:
    listener = kind(socket.AF_INET, socket.SOCK_STREAM)
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


def _start_http(
    service: Service, listener: socket.socket, faults: Faults | None
) -> http_server.HttpServer:
    routes = [route for module in MODULES for route in module.ROUTES]
    application = Application(service, routes)
    served = FaultyApplication(application, faults, service.closing) if faults else application
    return http_server.start(served, listener)


def _shut_down(service: Service, server: http_server.HttpServer) -> None:
    """Ends every process within a bounded time; a supervisor that is left sees this one die."""
    service.ending.set()
    root_lock.withdraw(service.root)
    _call_if_defined(pipelines, "close", service)  # exit tasks still call this service
    service.closing.set()
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
    leftovers.remove_temp_dir(service.root)
    service.store.settle()
    server.trigger.pull_trigger(server.close)


def _call_if_defined(module: ModuleType, function: str, service: Service) -> None:
    """Calls `module.function(service)`; one module's failure does not stop the others."""
    try:
        getattr(module, function, lambda service: None)(service)
    except Exception:
        logger.exception("%s.%s failed", module.__name__, function)
