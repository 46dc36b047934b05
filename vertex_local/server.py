"""The service process: start, recovery of the root folder, and shutdown."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType

from vertex_local import console, logs, redirect
from vertex_local.api import operations
from vertex_local.api.database.reserve import Reserve
from vertex_local.api.database.store import Store
from vertex_local.api.service import DEFAULT_PARALLEL, Service
from vertex_local.app import Application
from vertex_local.batch import resource as batch
from vertex_local.client import TOKEN_VARIABLE
from vertex_local.console.web import error_page
from vertex_local.endpoints import forwarding
from vertex_local.endpoints import resource as endpoints
from vertex_local.errors import StartError
from vertex_local.http import server as http_server
from vertex_local.jobs import resource as jobs
from vertex_local.machine import buckets, lost_and_found, peers, root_lock, system, users
from vertex_local.machine import docker as containers
from vertex_local.machine.clock import Clock
from vertex_local.machine.docker_engine import Engine, find_engine
from vertex_local.machine.files import make_private, remove_temp_dir
from vertex_local.machine.ports import LOOPBACK
from vertex_local.models import evaluations
from vertex_local.models import resource as models
from vertex_local.pipelines import resource as pipelines
from vertex_local.processes import leftovers
from vertex_local.processes.warm import Warm
from vertex_local.schedules import resource as schedules
from vertex_local.training import resource as training
from vertex_local.tuning import resource as tuning

logger = logging.getLogger(__name__)

PRIVATE_UMASK = 0o077  # also of its child processes: environments and data may be secret
DEFAULT_PORT = 8085
CLOSE_TIMEOUT_SECONDS = 25.0
SIGNAL_CHECK_SECONDS = 0.5
# Exists in a root folder while a service with --containers runs, or after it was killed.
CONTAINERS_MARK = "containers"
# Resource modules, in the order in which they recover after a restart.
MODULES: tuple[ModuleType, ...] = (
    operations,
    models,
    evaluations,
    endpoints,
    jobs,
    batch,
    tuning,
    training,
    pipelines,
    schedules,
    logs,
    console,
)


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of `vertex-local serve`, whose help says what they mean.

    Schedules run only in a service that stays: without `is_while_used`, or kept by a user.
    """

    root: Path
    port: int | None = None
    is_while_used: bool = False
    preload: Sequence[Sequence[str]] = ()
    num_parallel: int = DEFAULT_PARALLEL
    clock_speed: float = 1.0
    has_containers: bool = False
    mounts: tuple[Path, ...] = ()
    runs_host_commands: bool = False
    buckets: Path | None = None
    is_shared: bool = False


def serve(options: ServeOptions, *, on_ready: Callable[[str], None]) -> None:
    """Serve a root folder until SIGTERM, SIGINT or SIGHUP; call `on_ready` with the URL once ready.

    Raises:
        StartError: Containers cannot be run, another service runs on this root, its database
            cannot be used, or the port is in use.
    """
    os.umask(PRIVATE_UMASK)
    root = options.root.resolve()
    make_private(root)
    Reserve(root).use_if_full()  # the next steps write small files
    lock = root_lock.RootLock(root)
    root_lock.withdraw(root)  # server.json of a killed service
    num_notes = len(lost_and_found.notes(root))
    store = Store(root / "vertex.db")
    leftovers.remove(root)
    mounts = options.mounts
    if options.buckets:
        options.buckets.mkdir(parents=True, exist_ok=True)
        mounts = (*mounts, options.buckets)
    engine = find_engine(root, mounts) if options.has_containers else None
    _remove_left_containers(root)
    token = _set_token(options, root)
    listener = _listen(options)
    storage_url = _serve_buckets(options, port=listener.getsockname()[1] + 1, token=token)
    leftovers.mark_environment(root)
    stop = _stop_on_signals()
    users.announce(root, is_while_used=options.is_while_used)
    users_file = users.end_when_unused(root, stop) if options.is_while_used else None
    service = _service(options, root=root, store=store, listener=listener, engine=engine)
    service.token = token
    for module in MODULES:
        _call_if_defined(module, "recover", service)
    lost_and_found.forget_marks(root)
    _start_http(service, listener)
    record = {
        "port": listener.getsockname()[1],
        "url": service.url,
        "storage": storage_url,
        "buckets": os.environ.get(buckets.VARIABLE),
        "mounts": engine.mounts if engine else None,  # without containers
        "notes": lost_and_found.notes(root)[num_notes:],  # problems of this start
    }
    root_lock.announce(root, record)
    on_ready(f"{service.url}/?token={token}" if token else service.url)
    # A timeout, because a signal that another thread receives (as may happen while a child exits)
    # does not wake this thread, which must run the handler.
    while not stop.wait(SIGNAL_CHECK_SECONDS):
        if users.stays(root):
            service.stays.set()
    _shut_down(service)
    del lock, users_file  # both files are locked until here


def _set_token(options: ServeOptions, root: Path) -> str:
    """Return the token that requests must have, which the service's processes get as a variable.

    "" if the kernel tells whose a connection is, or if every user may connect.
    """
    os.environ.pop(TOKEN_VARIABLE, None)
    if options.is_shared or not system.IS_PORTABLE:
        return ""
    token = os.environ[TOKEN_VARIABLE] = root_lock.make_token(root)
    return token


def _service(
    options: ServeOptions,
    *,
    root: Path,
    store: Store,
    listener: socket.socket,
    engine: Engine | None,
) -> Service:
    url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    os.environ |= redirect.variables(url.removeprefix("http://"))  # also of its child processes
    clock = Clock(options.clock_speed)
    service = Service(
        root=root,
        store=store,
        url=url,
        engine=engine,
        runs_host_commands=options.runs_host_commands,
        num_parallel=options.num_parallel,
        clock=clock,
    )
    if not options.is_while_used:
        service.stays.set()
    if engine:
        (root / CONTAINERS_MARK).touch()
    if options.preload and system.IS_PORTABLE:
        logger.info("Nothing is preloaded: only on Linux forks of a process with these are safe")
    elif options.preload:
        log_path = root / "warm.log"
        service.warm = Warm(options.preload, log_path=log_path, closing=service.closing)
        service.warm.start()
    return service


def _serve_buckets(options: ServeOptions, *, port: int, token: str) -> str:
    """Serve the buckets, if there are any; return the address of their API, "" without one.

    The service's processes inherit the variables.
    """
    os.environ.pop(buckets.VARIABLE, None)
    if not options.buckets:
        return ""
    os.environ[buckets.VARIABLE] = str(options.buckets.resolve())
    if not buckets.MOUNT.is_dir():
        logger.info("Programs that open /gcs/BUCKET need the folder /gcs: sudo mkdir /gcs")
    try:
        from vertex_local import storage
    except ModuleNotFoundError:
        logger.info("Without the extra `buckets` no Cloud Storage API is served, only its folders")
        return ""
    kind = _socket_kind(options)
    try:
        listener = _bind(port, kind)
    except OSError:
        listener = _bind(0, kind)
    storage.start(options.buckets.resolve(), listener, token=token)
    address = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    url = os.environ[storage.HOST_VARIABLE] = f"{address}/{token}" if token else address
    logger.info("Cloud Storage for Google's clients: %s=%s", storage.HOST_VARIABLE, url)
    return url


def _remove_left_containers(root: Path) -> None:
    if (root / CONTAINERS_MARK).exists():
        containers.remove_root(root)
        (root / CONTAINERS_MARK).unlink()


def _listen(options: ServeOptions) -> socket.socket:
    kind = _socket_kind(options)
    if options.is_shared:
        logger.warning(
            "Shared: every user of this machine can run commands as uid %d", os.geteuid()
        )
    try:
        return _bind(options.port or DEFAULT_PORT, kind)
    except OSError as error:
        if options.port is not None:
            raise StartError(
                f"Port {options.port} cannot be used on {LOOPBACK}: {error.strerror}. "
                "Choose another --port, or omit it to get a free one."
            ) from None
    listener = _bind(0, kind)
    logger.warning(
        "Port %d is in use, perhaps by another service: programs must name the port %d of this one",
        DEFAULT_PORT,
        listener.getsockname()[1],
    )
    return listener


def _socket_kind(options: ServeOptions) -> type[socket.socket]:
    return socket.socket if options.is_shared or system.IS_PORTABLE else peers.OwnersSocket


def _bind(port: int, kind: type[socket.socket]) -> socket.socket:
    listener = kind(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(128)  # connections queue from here on, during the rest of the start
    except OSError:
        listener.close()
        raise
    return listener


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def handle(signum: int, frame: FrameType | None) -> None:
        logger.info("Stopping on %s", signal.Signals(signum).name)
        stop.set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, handle)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as after nohup
        signal.signal(signal.SIGHUP, handle)
    return stop


def _start_http(service: Service, listener: socket.socket) -> None:
    routes = [route for module in MODULES for route in module.ROUTES]

    def make_forward(server: http_server.HttpServer) -> http_server.Forward:
        forwarder = service.running[forwarding.KEY] = forwarding.Forwarder(service, server)
        return forwarder.forward

    http_server.start(
        Application(service, routes, error_page), listener, make_forward, token=service.token
    )  # to the end of this process


def _shut_down(service: Service) -> None:
    """Stop every process within a time limit; a supervisor that remains sees this process end."""
    service.ending.set()
    root_lock.withdraw(service.root)
    _call_if_defined(pipelines, "close", service)  # exit tasks still send requests to this service
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
    remove_temp_dir(service.root)
    service.store.checkpoint()


def _call_if_defined(module: ModuleType, function: str, service: Service) -> None:
    """Call `module.function(service)`; log an exception, so that the other modules are called."""
    try:
        getattr(module, function, lambda service: None)(service)
    except Exception:
        logger.exception("%s.%s failed", module.__name__, function)
