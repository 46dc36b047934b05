"""Listening socket that refuses connections of other users.

TCP on the loopback has no SO_PEERCRED, but the kernel knows the owner of the socket at the other
end: sock_diag(7) returns it in less than 0.1 ms, and /proc/net/tcp lists it. Clients need no token,
so the SDK, curl and a browser work unchanged. Programs of the same user are not distinguished,
which includes a proxy or `ssh -L` that forwards for others.
"""

import errno
import json
import logging
import os
import socket
import struct
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from vertex_local.errors import ApiError

logger = logging.getLogger(__name__)

# <linux/netlink.h>, <linux/sock_diag.h>, <linux/inet_diag.h>
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
NO_COOKIE = b"\xff" * 8
HEADER = "=IHHII"  # length, type, flags, sequence, port
REQUEST = "=BBBxI"  # family, protocol, extensions, states; the socket's id follows
SOCKET_ID = "!HH4s12x4s12x"  # ports and addresses, its own first; interface and cookie follow
MESSAGE = "=BB62x2I"  # family, state, …, uid, inode
MAX_MESSAGE_BYTES = 8192
MAX_REFUSED = 16
# <net/tcp_states.h>: ESTABLISHED, FIN_WAIT1 and FIN_WAIT2. A half-closed client still reads.
OPEN_STATES = {1, 4, 5}

Address = tuple[str, int]


class OwnersSocket(socket.socket):
    """Listening socket that accepts only connections of this process's user."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._logged: set[int | None] = set()
        self._refused: deque[socket.socket] = deque()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            ConnectionAbortedError: It was another user's and has been refused.
        """
        connection, address = super().accept()
        uid = peer_uid(address, self.getsockname())
        if uid == os.geteuid():
            return connection, address
        self._refuse(connection, uid)
        raise ConnectionAbortedError(errno.ECONNABORTED, f"a connection of uid {uid}")

    def close(self) -> None:
        """Close this socket and the refused connections."""
        while self._refused:
            self._refused.popleft().close()
        super().close()

    def _refuse(self, connection: socket.socket, uid: int | None) -> None:
        """Send 403 without reading or waiting.

        The last few connections stay open: if one is closed while the client sends, the kernel
        resets it, and the client does not receive the response.
        """
        if uid not in self._logged:  # once: other users must not fill the disk
            logger.warning("Refusing connections of %s; --shared would accept them", _name(uid))
            self._logged.add(uid)
        connection.setblocking(False)
        with suppress(OSError):  # the client has gone
            connection.send(_forbidden(uid))
            connection.shutdown(socket.SHUT_WR)
        self._refused.append(connection)
        if len(self._refused) > MAX_REFUSED:
            self._refused.popleft().close()


def peer_uid(client: Address, server: Address) -> int | None:
    """Return the user of the client's end of a connection; None if unknown.

    A client that has closed its end is unknown: the kernel returns uid 0 for such a socket.
    """
    try:
        uid = _uid_by_netlink(client, server)
    except OSError:  # not available, or forbidden
        uid = None
    if uid is not None:
        return uid
    try:
        return _uid_by_proc(client, server)
    except OSError:
        return None


def _uid_by_netlink(client: Address, server: Address) -> int | None:
    addresses = [socket.inet_aton(host) for host, _ in (client, server)]
    wanted = struct.pack(SOCKET_ID, client[1], server[1], *addresses)
    request = struct.pack(REQUEST, socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
    request += wanted + struct.pack("=I8s", 0, NO_COOKIE)
    length = struct.calcsize(HEADER) + len(request)
    header = struct.pack(HEADER, length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + request)
        reply = kernel.recv(MAX_MESSAGE_BYTES, socket.MSG_DONTWAIT)  # the kernel replies in send
    if struct.unpack_from(HEADER, reply)[1] != SOCK_DIAG_BY_FAMILY:  # an error
        return None
    _, state, uid, inode = struct.unpack_from(MESSAGE, reply, struct.calcsize(HEADER))
    return int(uid) if state in OPEN_STATES and inode else None


def _uid_by_proc(client: Address, server: Address) -> int | None:
    for table, prefix in (("tcp", b""), ("tcp6", bytes(10) + b"\xff\xff")):  # ::ffff:127.0.0.1
        ends = [
            _proc_address(prefix + socket.inet_aton(host), port) for host, port in (client, server)
        ]
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, remote, state, _, _, _, uid, _, inode, *_ = row.split()
            if [local, remote] == ends and int(state, 16) in OPEN_STATES and inode != "0":
                return int(uid)
    return None


def _proc_address(address: bytes, port: int) -> str:
    words = struct.unpack(f"={len(address) // 4}I", address)
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"


def _forbidden(uid: int | None) -> bytes:
    error = ApiError(
        "PERMISSION_DENIED",
        f"This service accepts only uid {os.geteuid()}, and the connection is of "
        f"{_name(uid)}; `vertex-local serve --shared` accepts every user of the machine.",
    )
    body = json.dumps(error.to_body()).encode() + b"\n"
    head = (
        "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _name(uid: int | None) -> str:
    return "an unknown user" if uid is None else f"uid {uid}"
