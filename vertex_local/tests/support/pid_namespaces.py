"""A service where the kernel refuses PID namespaces."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from vertex_local import testing

HOLDER = "echo 0 > /proc/sys/user/max_pid_namespaces && echo ready && exec sleep infinity"


@contextmanager
def no_pid_namespaces() -> Iterator[list[str]]:
    """Create a user namespace without PID namespaces; yield a prefix for commands to run there.

    All services of a test share one, since processes of another one cannot be inspected.
    """
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", HOLDER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"ready\n"
            yield ["nsenter", "--user", "--preserve-credentials", f"--target={holder.pid}"]
        finally:
            holder.kill()


def start_refused(service, refusing: list[str]) -> None:
    before = service.launch
    service.launch = lambda command, log_path: testing.launch([*refusing, *command], log_path)
    service.start()
    service.launch = before
