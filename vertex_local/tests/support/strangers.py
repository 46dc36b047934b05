"""Another user of the machine."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

STRANGER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def as_stranger(action: Callable[[], Any]) -> Any:
    """Run `action` in a process of another user; return its result, or its error as text."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            answer = action()
        except BaseException as error:
            answer = repr(error)
        os.write(write_fd, json.dumps(answer).encode())
        os._exit(0)
    os.close(write_fd)
    with open(read_fd) as file:
        answer = json.load(file)
    os.waitpid(pid, 0)
    return answer
