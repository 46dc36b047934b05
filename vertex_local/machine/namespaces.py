"""Namespaces of a group of processes: of process ids, and of the network. Linux only.

A process can leave its session, its parent and its environment, but not its PID namespace: the
kernel kills all processes of it with its init process. A private network has a loopback interface
and no other: TensorFlow's gRPC server has no authentication, runs any graph it receives, and
listens on all interfaces, whatever address TF_CONFIG names. See namespaces(7).
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path

from vertex_local.machine import children, linux
from vertex_local.machine.linux import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_REC

# <linux/sched.h>
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
# <linux/mount.h>
MS_SLAVE = 0x80000
# <linux/prctl.h>
PR_SET_NAME = 15
# <linux/sockios.h>, <linux/if.h>
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
INTERFACE_REQUEST = "16sH14x"
READY_TIMEOUT_SECONDS = 30.0


def contain(group: Path) -> int:
    """Create a PID namespace for all later children; return the pid of its init process.

    This process stays outside and knows its children by their pids outside. Its /proc
    then shows the namespace, for programs that read their own entries. The kernel kills the init
    when this process ends. This process must have one thread only; `group`, its folder, is unused.

    Raises:
        OSError: The system does not allow it; nothing has changed.
    """
    if os.geteuid():  # try first: there is no way back from a user namespace
        linux.try_in_fork(_enter)
    return _enter()


def _enter() -> int:
    with Path("/proc/self/ns/pid").open() as outside:
        linux.unshare(CLONE_NEWPID | CLONE_NEWNS)
        try:
            return _start_init()
        except OSError:
            with suppress(OSError):
                linux.set_namespace(outside.fileno())
            raise


def _start_init() -> int:
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if not pid:
        _run_init(write_fd)
    os.close(write_fd)
    report = children.await_report(pid, read_fd, timeout_seconds=READY_TIMEOUT_SECONDS)
    if problem := int(report or "-1"):
        children.end_child(pid)
        raise OSError(problem, os.strerror(problem))
    return pid


def _run_init(report_fd: int) -> None:
    """Run the init of the namespace: prepare it, then reap orphans until killed."""
    problem = 0
    try:
        _leave_parent(report_fd)
        _prepare()
    except OSError as error:
        problem = error.errno or -1
    except BaseException:
        problem = -1
    try:
        os.write(report_fd, str(problem).encode())  # fails if the parent ended before _leave_parent
        os.close(report_fd)
    except OSError:
        problem = -1
    while not problem:
        signal.pause()
    os._exit(1)


def _leave_parent(report_fd: int) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_NAME, b"group-init", 0, 0, 0)
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)  # so an init ignores it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then reaps orphans
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing is closed
            if int(name) != report_fd:
                os.close(int(name))


def _prepare() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    linux.check(libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None), "mount(2)")
    linux.check(
        libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None), "mount(2)"
    )
    # Programs name shared files by their pid, so pids of groups must not all start at 2.
    kernel = Path("/proc/sys/kernel")
    with suppress(OSError):
        number = int.from_bytes(os.urandom(4)) % int((kernel / "pid_max").read_text())
        (kernel / "ns_last_pid").write_text(str(number))


def enter_private_network() -> None:
    """Move this process, and its later children, into a private network.

    Raises:
        OSError: The system does not allow it.
    """
    linux.unshare(CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack(INTERFACE_REQUEST, b"lo", 0)
        reply = fcntl.ioctl(handle, SIOCGIFFLAGS, request)
        _, flags = struct.unpack(INTERFACE_REQUEST, reply)
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack(INTERFACE_REQUEST, b"lo", flags | IFF_UP))
