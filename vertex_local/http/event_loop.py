"""Event loop for many short exchanges: non-blocking connections in one thread.

asyncio and uvloop cannot hand a connection on to another loop, which `lane.py` does.
"""

import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
READ_BYTES, MORE_BYTES = 16 * 1024, 1024 * 1024
READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class EventLoop:
    """Thread that reads from connections, and writes what their sockets did not take at once."""

    def __init__(self, name: str) -> None:
        self.now = time.monotonic()  # of the current round of events
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._round_ends: list[Callable[[], None]] = []
        self._calls: deque[Callable[[], None]] = deque()
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._waker, READ)
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the loop's thread; may be called in any thread."""
        self._calls.append(function)
        os.eventfd_write(self._waker, 1)

    def call_at_end_of_round(self, function: Callable[[], None]) -> None:
        """Call a function once the events that are known now have been handled."""
        self._round_ends.append(function)

    def add(self, connection: "Connection", events: int) -> None:
        """Watch a connection."""
        self._connections[connection.number] = connection
        self._epoll.register(connection.number, events)

    def watch(self, connection: "Connection", events: int) -> None:
        """Set the events of a connection."""
        self._epoll.modify(connection.number, events)

    def remove(self, connection: "Connection") -> None:
        """Stop watching a connection."""
        del self._connections[connection.number]
        self._epoll.unregister(connection.number)

    def _run(self) -> None:
        next_tick = 0.0
        while True:
            events = self._epoll.poll(TICK_SECONDS)
            self.now = time.monotonic()
            for number, event in events:
                connection = self._connections.get(number)
                if connection is not None:
                    try:  # as `guard`, without the cost of another call
                        connection.handle(event)
                    except Exception:
                        _fail(connection)
                elif number == self._waker:
                    os.eventfd_read(number)
            while self._calls:
                self._do(self._calls.popleft())
            while self._round_ends:
                round_ends, self._round_ends = self._round_ends, []
                for function in round_ends:
                    self._do(function)
            if self.now > next_tick:
                next_tick = self.now + TICK_SECONDS
                self._tick()

    def guard(self, connection: "Connection", function: Callable[[], None]) -> None:
        """Call a function in the loop's thread; if it raises, log it and fail the connection."""
        try:
            function()
        except Exception:
            _fail(connection)

    def _do(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception:
            logger.exception("Unexpected error in the event loop")

    def _tick(self) -> None:
        for connection in list(self._connections.values()):
            self.guard(connection, connection.check_time)


class Connection:
    """Connection of an event loop; all methods are called in its thread."""

    def __init__(self, loop: EventLoop, connected: socket.socket) -> None:
        self.loop = loop
        self.is_open = True
        self.sent_at = loop.now  # last attempt to send; the next follows when there is room
        self._socket = connected
        self._unsent = b""
        self._reads = READ
        self.has_ended = False  # the other end sends no more, but may still read
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = connected.fileno()
        loop.add(self, READ)

    def received(self, data: bytes) -> None:
        """Handle data from the other end."""

    def ended(self) -> None:
        """Handle the end of the data; by default the connection is lost."""
        self.fail()

    def lost(self) -> None:
        """Handle the end of the connection by the other end, or by an error."""

    def drained(self) -> None:
        """Handle the end of a delay in which data could not be sent."""

    def check_time(self) -> None:
        """Handle timeouts, once a second; `loop.now` is the time by time.monotonic."""

    @property
    def is_sending(self) -> bool:
        """True while data waits to be sent."""
        return bool(self._unsent)

    def send(self, data: bytes) -> None:
        """Send data, later if the socket's buffer is full."""
        if self._unsent:
            self._unsent += data
            return
        self.sent_at = self.loop.now
        try:
            num_sent = self._socket.send(data)
        except BlockingIOError:
            num_sent = 0
        except OSError:
            self.fail()
            return
        if num_sent < len(data):
            self._unsent = data[num_sent:]
            self.loop.watch(self, self._reads | WRITE)

    def set_reading(self, is_reading: bool) -> None:
        """Read from the connection, or stop reading."""
        self._reads = READ if is_reading and not self.has_ended else 0
        self.loop.watch(self, self._reads | (WRITE if self._unsent else 0))

    def leave(self) -> socket.socket:
        """Take the connection out of the loop; return its socket."""
        self.is_open = False
        self.loop.remove(self)
        return self._socket

    def close(self) -> None:
        """Close the connection."""
        if self.is_open:
            self.leave().close()

    def fail(self) -> None:
        """Close the connection, and handle its loss."""
        if self.is_open:
            self.close()
            self.lost()

    def handle(self, event: int) -> None:
        """Handle an event of the socket."""
        if event & WRITE and self._unsent:
            self._send_rest()
        if event & ~WRITE and self.is_open:
            try:
                data = self._socket.recv(READ_BYTES)
                if len(data) == READ_BYTES:
                    data += self._read_more()
            except BlockingIOError:
                return
            except OSError:
                self.fail()
                return
            if data:
                self.received(data)
            elif self.has_ended:  # closed by both ends
                self.fail()
            else:
                self.has_ended = True
                self.ended()

    def _read_more(self) -> bytes:
        try:
            return self._socket.recv(MORE_BYTES)
        except OSError:  # there is none; another error is raised again by the next call
            return b""

    def _send_rest(self) -> None:
        data, self._unsent = self._unsent, b""
        self.loop.watch(self, self._reads)
        self.send(data)
        if self.is_open and not self._unsent:
            self.drained()


def _fail(connection: Connection) -> None:
    """Log the current exception, and close the connection in whose handler it was raised."""
    logger.exception("Unexpected error in the event loop")
    connection.fail()
