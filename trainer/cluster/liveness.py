"""Liveness of other replicas, found by connecting to their ports."""

import contextlib
import logging
import os
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from trainer.errors import EXIT_RESTART, ReplicaLostError

logger = logging.getLogger(__name__)

# A refused connection means that the process has ended; no reply may be a fault of the network.
_REFUSED_SECONDS = 2.0
_SILENT_SECONDS = 15.0
_PROBE_SECONDS = 1.0
_POLL_SECONDS = 0.5
_REACTION_SECONDS = 20.0
_REMINDER_SECONDS = 10.0
# First keepalive probe after 5 s of silence, then one every 3 s; see tcp(7). macOS has other names
# for two of them; its TCP_RXT_CONNDROPTIME, in seconds, is 0x80 in <netinet/tcp.h>, not in Python.
_KEEPALIVE = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPALIVE": 5,
    "TCP_KEEPINTVL": 3,
    "TCP_USER_TIMEOUT": int(_SILENT_SECONDS * 1000),
}
_TCP_OPTIONS = [
    (getattr(socket, name), value) for name, value in _KEEPALIVE.items() if hasattr(socket, name)
]
if sys.platform == "darwin":
    _TCP_OPTIONS.append((0x80, int(_SILENT_SECONDS)))


def is_reachable(address: str) -> bool:
    """Return True if a process listens at host:port."""
    return probe(address) == "up"


def probe(address: str) -> str:
    """Return `up`, `refused` or `silent`."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=_PROBE_SECONDS) as connection:
            # Reset instead of lingering: a probe must not keep the port busy.
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            # On one host a connection to a free port can, rarely, be connected to itself.
            is_itself = connection.getsockname() == connection.getpeername()
            return "refused" if is_itself else "up"
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return "silent"


def wait_until_reachable(
    addresses: Mapping[str, str],
    *,
    timeout_seconds: float,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Wait until every replica listens.

    `check` is called while waiting and may raise. Every few seconds the missing replicas are
    logged.

    Raises:
        ReplicaLostError: a replica is still missing after `timeout_seconds`.
    """
    start, reminder = time.monotonic(), Reminder()
    missing = dict(addresses)
    while missing := {name: at for name, at in missing.items() if not is_reachable(at)}:
        check()
        if time.monotonic() - start > timeout_seconds:
            raise ReplicaLostError(
                f"waited {timeout_seconds:.0f} s for {format_addresses(missing)}: not started?"
            )
        reminder.log(missing)
        time.sleep(0.1)


class Reminder:
    """Log line, every few seconds, that names the missing replicas."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()

    def log(self, missing: Mapping[str, str]) -> None:
        """Log the missing replicas, if any and if the last line is old enough."""
        now = time.monotonic()
        if missing and now - self._last >= _REMINDER_SECONDS:
            self._last = now
            names = format_addresses(missing)
            logger.info("waiting for %s, for %.0f s so far", names, now - self._start)


def format_addresses(addresses: Mapping[str, str]) -> str:
    """Return "worker/0 (host:port), …"."""
    return ", ".join(f"{name} ({address})" for name, address in addresses.items())


class LivenessWatch:
    """Times at which replicas were last reachable.

    A replica is lost after 2 s of refused connections, or 15 s without any reply.
    """

    def __init__(self, addresses: Mapping[str, str]):
        self._addresses = dict(addresses)
        self._allowed_seconds = {"refused": _REFUSED_SECONDS, "silent": _SILENT_SECONDS}
        self._last_up = dict.fromkeys(addresses, time.monotonic())

    def find_lost(self) -> str:
        """Probe every replica; return "" or a message that names one that is lost."""
        for name, address in self._addresses.items():
            state = probe(address)
            if state == "up":
                self._last_up[name] = time.monotonic()
                continue
            seconds = time.monotonic() - self._last_up[name]
            if seconds > self._allowed_seconds[state]:
                return f"{name} ({address}) has been unreachable for {seconds:.0f} s"
        return ""


class Monitor:
    """Background watch of replicas, any of which ends the job when it is lost.

    The main thread may be blocked in TensorFlow, waiting for the lost replica for ever. If it does
    not react in time, `on_stuck` is called, which ends the process.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        on_stuck: Callable[[str], None] | None = None,
        reaction_seconds: float | None = None,
    ):
        self.lost = self.disconnected = ""
        self._watch = LivenessWatch(addresses)
        self._on_stuck = on_stuck or end_stuck_process
        self._reaction_seconds = reaction_seconds or _REACTION_SECONDS
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="replica-monitor", daemon=True).start()

    def raise_if_lost(self) -> None:
        """Raise ReplicaLostError if a replica is lost."""
        if self.lost:
            raise ReplicaLostError(f"{self.lost}; start the job again to resume")

    def explain(self, error: Exception) -> Exception:
        """Return ReplicaLostError if a lost replica explains TensorFlow's error, else the error."""
        deadline = time.monotonic() + _REFUSED_SECONDS + 3 * _POLL_SECONDS
        while not self.lost and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS / 5)
        lost = self.lost or self.disconnected
        return ReplicaLostError(lost) if lost else error

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            self.lost = self._watch.find_lost()
            if self.lost:
                break
        if not self._closed.wait(self._reaction_seconds) and self.lost:
            self._on_stuck(self.lost)


class WorkerMonitor:
    """Background watch of workers that may be lost and restarted while others continue.

    The job is lost only if no worker is reachable for `replace_seconds`.
    """

    def __init__(self, addresses: Mapping[str, str], *, replace_seconds: float):
        self.num_workers = len(addresses)
        self._addresses, self._replace_seconds = dict(addresses), replace_seconds
        self._lost: set[str] = set()
        self._last_reachable = time.monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="worker-monitor", daemon=True).start()

    def raise_if_lost(self) -> None:
        """Raise ReplicaLostError if no worker has been reachable for `replace_seconds`."""
        seconds = time.monotonic() - self._last_reachable
        if seconds > self._replace_seconds:
            raise ReplicaLostError(
                f"{format_addresses(self._addresses)} has been unreachable for {seconds:.0f} s;"
                " start the job again to resume"
            )

    def are_all_lost(self) -> bool:
        """Return True while no worker is reachable; `replace_seconds` limits that wait."""
        return len(self._lost) == self.num_workers

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            limit_silence(self._addresses.values())
            lost = {name for name, at in self._addresses.items() if not is_reachable(at)}
            self._log_changes(lost)
            self._lost = lost
            if len(lost) < len(self._addresses):
                self._last_reachable = time.monotonic()

    def _log_changes(self, lost: set[str]) -> None:
        num_left = len(self._addresses) - len(lost)
        continues = "1 worker continues" if num_left == 1 else f"{num_left} workers continue"
        for name in sorted(lost - self._lost):
            logger.warning(
                "%s is lost; %s. Restarted at %s, it rejoins",
                name,
                continues,
                self._addresses[name],
            )
        for name in sorted(self._lost - lost):
            logger.info("%s is back", name)


def limit_silence(addresses: Iterable[str]) -> int:
    """Make this process's connections to these host:port fail after 15 s without any reply.

    TensorFlow does not notice that a host is cut off: its calls would wait for ever, some of them
    holding the GIL, so that no thread could end the process. The kernel can end the connections.

    Returns the number of connections found.
    """
    peers: set[tuple[str, int]] = set()
    for address in addresses:
        host, port = address.rsplit(":", 1)
        with contextlib.suppress(OSError):
            infos = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
            peers |= {(str(info[4][0]), int(info[4][1])) for info in infos}
    return sum(_limit_silence(int(fd), peers) for fd in os.listdir("/dev/fd"))


def _limit_silence(fd: int, peers: Collection[tuple[str, int]]) -> bool:
    with contextlib.suppress(OSError):  # closed in the meantime, or not connected
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            return False
        with socket.socket(fileno=os.dup(fd)) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return False  # of others, such as netlink, the peer has no host
            host, port = connection.getpeername()[:2]
            if (host.removeprefix("::ffff:"), port) in peers:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in _TCP_OPTIONS:
                    connection.setsockopt(socket.IPPROTO_TCP, option, value)
                return True
    return False


def end_stuck_process(lost: str) -> None:
    """Exit while TensorFlow waits for a lost replica; `lost` is the message that names it."""
    logger.error("%s, but TensorFlow still waits for it; start the job again to resume", lost)
    end_process(EXIT_RESTART)


def end_process(code: int) -> None:
    """Exit at once, because TensorFlow's threads may be waiting for lost replicas."""
    logging.shutdown()
    os._exit(code)
