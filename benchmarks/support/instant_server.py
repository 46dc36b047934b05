"""Prediction server that responds at once, to measure what is in front of it.

It computes for `WORK_MICROSECONDS` per request, and parses nothing but lengths.
"""

import contextlib
import os
import select
import socket
import time

BODY = b'{"predictions": [{"class": 7, "probabilities": [0.1, 0.9]}]}'
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def main() -> None:
    """Serve under Vertex AI's contract, on one thread."""
    work_seconds = float(os.environ.get("WORK_MICROSECONDS", "0")) / 1e6
    address = (os.environ["AIP_HTTP_HOST"], int(os.environ["AIP_HTTP_PORT"]))
    listener = socket.create_server(address, backlog=512)
    listener.setblocking(False)
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    while True:
        for number, _ in epoll.poll():
            if number == listener.fileno():
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()] = client
                epoll.register(client, select.EPOLLIN)
            elif not _serve(clients[number], work_seconds):
                clients.pop(number).close()


def _serve(client: socket.socket, work_seconds: float) -> bool:
    data, responses = _read(client), []
    while data:
        head, _, body = data.partition(b"\r\n\r\n")
        found = head.lower().find(b"content-length:")
        length = int(head[found + 15 :].split(b"\r\n", 1)[0]) if found >= 0 else 0
        while len(body) < length:
            body += _read(client)
        end = time.thread_time() + work_seconds
        while time.thread_time() < end:
            pass
        responses.append(RESPONSE)
        data = body[length:]
        if not data:
            with contextlib.suppress(OSError):
                client.sendall(b"".join(responses))
            return True
    return False


def _read(client: socket.socket) -> bytes:
    try:
        return client.recv(1 << 16)
    except OSError:
        return b""


if __name__ == "__main__":
    main()
