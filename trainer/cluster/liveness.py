"""Tells whether other replicas are alive, by connecting to their ports."""

import contextlib
import logging
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from trainer.errors import ReplicaLostError

logger = logging.getLogger(__name__)

# A refused connection means that the process is gone; silence may be the network's.
REFUSED_SECONDS = 2.0
SILENT_SECONDS = 15.0
START_TIMEOUT_SECONDS = 600.0
_POLL_SECONDS = 0.5
_REACTION_SECONDS = 20.0
_SAY_SECONDS = 10.0
# Ask after 5 s of silence, then every 3 s; see tcp(7).
_FAILS_WHEN_SILENT = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENT_SECONDS * 1000)),
)


def is_reachable(address: str) -> bool:
    """Returns whether something listens at host:port."""
    return probe(address) == "up"


def probe(address: str, *, timeout_seconds: float = 1.0) -> str:
    """Returns `up`, `refused` or `silent`."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_seconds) as connection:
            # Reset instead of lingering: a probe must never keep the port it asks about busy.
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            # On one host a connection to a free port may, rarely, meet itself.
            is_itself = connection.getsockname() == connection.getpeername()
            return "refused" if is_itself else "up"
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return "silent"


def wait_until_reachable(
    addresses: Mapping[str, str],
    *,
    timeout_seconds: float = START_TIMEOUT_SECONDS,
    check: Callable[[], None] = lambda: None,
    can_do_without: Callable[[Mapping[str, str]], bool] = lambda missing: False,
    late_seconds: float = 0.0,
) -> dict[str, str]:
    """Returns when every replica listens; `check` is called while waiting and may raise.

    When `can_do_without` those still missing, they have `late_seconds` to come: then they are
    returned. Every few seconds the log says who is waited for.
    """
    start, reminder = time.monotonic(), Reminder()
    missing, enough_since = dict(addresses), math.inf
    while missing := {name: at for name, at in missing.items() if not is_reachable(at)}:
        check()
        now = time.monotonic()
        if can_do_without(missing):
            enough_since = min(enough_since, now)
        if now - enough_since >= late_seconds:
            break
        if now - start > timeout_seconds:
            raise ReplicaLostError(
                f"waited {timeout_seconds:.0f} s for {list_names(missing)}: not started?"
            )
        reminder.say(missing)
        time.sleep(0.1)
    return missing


class Reminder:
    """Says every few seconds for whom this replica waits."""

    def __init__(self) -> None:
        self._start = self._said = time.monotonic()

    def say(self, missing: Mapping[str, str]) -> None:
        """Is called while replicas are missing."""
        now = time.monotonic()
        if missing and now - self._said >= _SAY_SECONDS:
            self._said = now
            logger.info("waiting for %s, for %.0f s now", list_names(missing), now - self._start)


def list_names(addresses: Mapping[str, str]) -> str:
    """Returns "worker/0 (host:port), …"."""
    return ", ".join(f"{name} ({address})" for name, address in addresses.items())


class Watch:
    """Remembers when each replica was last reachable; `lost` names those gone for too long."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        refused_seconds: float = REFUSED_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ):
        self._addresses = dict(addresses)
        self._allowed_seconds = {"refused": refused_seconds, "silent": silent_seconds}
        self._seen = dict.fromkeys(addresses, time.monotonic())

    def lost(self) -> str:
        """Asks every replica and returns "" or what has happened to one of them."""
        for name, address in self._addresses.items():
            answer = probe(address)
            if answer == "up":
                self._seen[name] = time.monotonic()
                continue
            gone_for = time.monotonic() - self._seen[name]
            if gone_for > self._allowed_seconds[answer]:
                return f"{name} ({address}) has been unreachable for {gone_for:.0f} s"
        return ""


class Monitor:
    """Watches replicas in the background for a main thread that may be blocked in TensorFlow.

    If the main thread does not act on the loss, waiting for a replica that will never answer, the
    process is ended from here: a job never hangs.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        on_stuck: Callable[[str], None],
        reaction_seconds: float | None = None,
    ):
        self.loss = ""
        self._watch = Watch(addresses)
        self._on_stuck = on_stuck
        self._reaction_seconds = reaction_seconds or _REACTION_SECONDS
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="replica-monitor", daemon=True).start()

    def raise_if_lost(self) -> None:
        """Raises ReplicaLostError when a replica is gone."""
        if self.loss:
            raise ReplicaLostError(f"{self.loss}; start the job again to resume")

    def explain(self, error: Exception) -> Exception:
        """Returns the loss behind an error of TensorFlow, or else the error itself."""
        deadline = time.monotonic() + REFUSED_SECONDS + 3 * _POLL_SECONDS
        while not self.loss and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS / 5)
        return ReplicaLostError(self.loss) if self.loss else error

    def close(self) -> None:
        """Stops watching."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            self.loss = self._watch.lost()
            if self.loss:
                break
        if not self._closed.wait(self._reaction_seconds) and self.loss:
            self._on_stuck(self.loss)


class WorkerMonitor:
    """Watches workers that may be lost and come back; only without any worker is the job lost."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        replace_seconds: float,
        missing: Collection[str] = (),
    ):
        self.num_workers = len(addresses)
        self._addresses, self._replace_seconds = dict(addresses), replace_seconds
        self._gone, self._late = set(missing), set(missing)
        self._last_seen = time.monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="worker-monitor", daemon=True).start()

    def raise_if_lost(self) -> None:
        """Raises ReplicaLostError when no worker has been there for too long."""
        waited = time.monotonic() - self._last_seen
        if waited > self._replace_seconds:
            raise ReplicaLostError(
                f"{list_names(self._addresses)} has been unreachable for {waited:.0f} s; start the"
                " job again to resume"
            )

    def are_gone(self) -> bool:
        """Whether no worker is there: a wait that `replace_seconds` bounds."""
        return len(self._gone) == self.num_workers

    def close(self) -> None:
        """Stops watching."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            bound_silence(self._addresses.values())
            gone = {name for name, at in self._addresses.items() if not is_reachable(at)}
            for name in sorted(gone - self._gone):
                logger.warning(
                    "%s is gone; %d workers go on. Started again at %s, it takes part again",
                    name,
                    len(self._addresses) - len(gone),
                    self._addresses[name],
                )
            for name in sorted(self._gone - gone):
                logger.info("%s %s", name, "has come" if name in self._late else "is back")
            self._gone = gone
            self._late &= gone
            if len(gone) < len(self._addresses):
                self._last_seen = time.monotonic()


def bound_silence(addresses: Iterable[str]) -> int:
    """Lets this process's connections to host:port fail when nobody answers; returns how many.

    Nothing else tells TensorFlow that a host is cut off: its calls would wait for ever, some of
    them with Python's lock held, so that no thread could end them. The kernel can.
    """
    peers: set[tuple[str, int]] = set()
    for address in addresses:
        host, port = address.rsplit(":", 1)
        with contextlib.suppress(OSError):
            found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
            peers |= {(str(info[4][0]), int(info[4][1])) for info in found}
    return sum(_bound_silence(int(fd), peers) for fd in os.listdir("/proc/self/fd"))


def _bound_silence(fd: int, peers: Collection[tuple[str, int]]) -> bool:
    with contextlib.suppress(OSError):  # it is closed meanwhile, or has no peer
        if not os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
            return False
        with socket.socket(fileno=os.dup(fd)) as connection:
            host, port = connection.getpeername()[:2]
            if (host.removeprefix("::ffff:"), port) in peers:
                for level, option, value in _FAILS_WHEN_SILENT:
                    connection.setsockopt(level, option, value)
                return True
    return False


def end_process(code: int) -> None:
    """Ends at once: TensorFlow's threads may be waiting for replicas that are gone."""
    logging.shutdown()
    os._exit(code)
