"""Python without what only Linux has, as on macOS: `make test-portable` adds this to PYTHONPATH.

Python imports this file at its start, in every child process as well. Names are from "Availability"
in Python's documentation, and from macOS' headers.
"""

import contextlib
import errno
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any

# By the module that defines them, and the module that users import.
LINUX_ONLY = {
    ("posix", "os"): """
        copy_file_range eventfd* fdatasync getrandom getresgid getresuid getxattr listxattr
        memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate removexattr sched_getaffinity
        sched_getparam sched_getscheduler sched_param sched_rr_get_interval sched_setaffinity
        sched_setparam sched_setscheduler setns setresgid setresuid setxattr splice timerfd_*
        unshare CLONE_* EFD_* GRND_* MFD_* O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE
        PIDFD_* POSIX_FADV_* P_PIDFD RWF_* SCHED_BATCH SCHED_IDLE SCHED_RESET_ON_FORK SPLICE_*
        TFD_* XATTR_*""",
    ("_signal", "signal"): """
        pidfd_send_signal sigtimedwait sigwaitinfo SIGCLD SIGPOLL SIGPWR SIGRTMAX SIGRTMIN
        SIGSTKFLT""",
    ("select",): "epoll EPOLL*",
    ("_socket", "socket"): """
        AF_ALG AF_CAN AF_NETLINK AF_TIPC AF_VSOCK MSG_CMSG_CLOEXEC MSG_CONFIRM
        MSG_ERRQUEUE MSG_FASTOPEN MSG_MORE MSG_NOSIGNAL NETLINK_* PACKET_* SCM_CREDENTIALS
        SOCK_CLOEXEC SOCK_NONBLOCK SO_BINDTODEVICE SO_DOMAIN SO_INCOMING_CPU SO_MARK SO_PASSCRED
        SO_PASSSEC SO_PEERCRED SO_PEERSEC SO_PRIORITY SO_PROTOCOL TCP_CONGESTION TCP_CORK
        TCP_DEFER_ACCEPT TCP_INFO TCP_KEEPIDLE TCP_LINGER2 TCP_QUICKACK TCP_SYNCNT
        TCP_USER_TIMEOUT TCP_WINDOW_CLAMP""",
    ("fcntl",): "DN_* F_ADD_SEALS F_*LEASE F_*PIPE_SZ F_*SIG F_GET_SEALS F_NOTIFY F_OFD_* F_SEAL_*",
    ("resource",): "prlimit RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RT* RLIMIT_SIGPENDING RUSAGE_THREAD",
    ("time",): "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
}
SYSTEM_CALLS = {
    "capget",
    "capset",
    "clone",
    "epoll_create",
    "eventfd",
    "inotify_init",
    "mallopt",
    "malloc_trim",
    "mount",
    "pidfd_open",
    "pivot_root",
    "prctl",
    "sched_setaffinity",
    "setns",
    "setresuid",
    "signalfd",
    "syscall",
    "umount2",
    "unshare",
}
FOLDERS = ("/proc/", "/sys/", "/dev/shm/")
STANDARD = sys.stdlib_module_names
# These look elsewhere on macOS. Support of tests looks for processes, and starts programs faster.
ALLOWED = ("psutil", "multiprocessing.heap", "vertex_local.tests.support")
AF_UNIX, SOCK_SEQPACKET = 1, 5


def _remove_names() -> None:
    for (module, *wrappers), text in LINUX_ONLY.items():
        importlib.import_module(module)  # a wrapper has no more than it when it is imported later
        patterns = [pattern.partition("*") for pattern in text.split()]
        for loaded in filter(None, map(sys.modules.get, (module, *wrappers))):
            for name in dir(loaded):
                if any(_matches(name, *pattern) for pattern in patterns):
                    delattr(loaded, name)
    os.__all__ = [name for name in os.__all__ if hasattr(os, name)]
    if sys.version_info < (3, 13):
        del os.waitid
    else:
        os.process_cpu_count = os.cpu_count  # instead of Python's, which asks sched_getaffinity


def _matches(name: str, begin: str, star: str, end: str) -> bool:
    return name.startswith(begin) and name.endswith(end) if star else name == begin


def _is_hidden(path: Any) -> bool:
    """Return whether a path exists on Linux only, and the caller may not know."""
    try:
        text = f"{os.fsdecode(path)}/"
    except TypeError:  # a file descriptor
        return False
    return text.startswith(FOLDERS) and not _is_allowed()


def _is_allowed() -> bool:
    """Return whether one of these modules called, perhaps through the standard library."""
    frame = sys._getframe(2)
    while frame:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(ALLOWED):
            return True
        if frame.f_code.co_filename != __file__ and name.split(".")[0] not in STANDARD:
            return False
        frame = frame.f_back
    return False


def _refuse_path(path: Any, *_: Any) -> None:
    if _is_hidden(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))


def _refuse_symbol(*arguments: Any) -> None:
    for name in SYSTEM_CALLS.intersection(word for word in arguments if isinstance(word, str)):
        raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")


def _refuse_socket(_: Any, family: int, kind: int, *__: Any) -> None:
    if (family, kind) == (AF_UNIX, SOCK_SEQPACKET) and not _is_allowed():
        raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))


def _hiding(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `os` that has no audit event, without the folders that are hidden."""

    def hide(path: Any, *arguments: Any, **options: Any) -> Any:
        _refuse_path(path)
        return function(path, *arguments, **options)

    hide.__name__ = function.__name__
    for capable in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        capable.update({hide} if function in capable else ())
    return hide


REFUSALS = {
    **dict.fromkeys(("open", "os.listdir", "os.scandir", "os.chdir"), _refuse_path),
    **dict.fromkeys(("ctypes.dlsym", "ctypes.dlsym/handle"), _refuse_symbol),
    "socket.__new__": _refuse_socket,
}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if refuse := REFUSALS.get(event):
        refuse(*arguments)


def _run_next() -> None:
    """Run the file of this name that this one hides, if any."""
    own = os.path.dirname(os.path.abspath(__file__))
    path = [folder for folder in sys.path if os.path.abspath(folder) != own]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_remove_names()
for _name in ("access", "lstat", "readlink", "stat", "statvfs"):
    setattr(os, _name, _hiding(getattr(os, _name)))
sys.addaudithook(_audit)
with contextlib.suppress(ImportError):
    _run_next()
