"""`docker` commands to run processes in containers.

A replica in a container is the process of `docker run`, which forwards signals, output and exit
code. It cannot forward SIGKILL; containers that this leaves running are found by their labels and
removed. Standard library only.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vertex_local.machine.files import log_line

ROOT_LABEL = "vertex-local.root"
GROUP_LABEL = "vertex-local.group"
PRIVATE, HOST, BRIDGE = "private", "host", "bridge"
TIMEOUT_SECONDS = 60.0
NUM_SIGNALS = 64
SIGNAL_BASE = 128
# Variables that `docker` itself reads: a container's are passed with their values instead.
READ_BY_DOCKER = re.compile(
    r"(?i)(DOCKER|LD|OTEL|SSL)_.*|GO(DEBUG|GC|MAXPROCS|MEMLIMIT|TRACEBACK)|HOME|PATH|.*_PROXY"
)
# TMPDIR is removed with the container. TINI_* has the init signal the whole process group.
DEFAULTS = {
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "PYTHONUNBUFFERED": "1",
    "TINI_KILL_PROCESS_GROUP": "1",
}
# Docker's DNS does not reply for a host that has not started; by default the retry takes 10 s.
DNS_OPTIONS = ["--dns-option", "timeout:1", "--dns-option", "attempts:1"]


@dataclass(frozen=True, kw_only=True)
class Container:
    """Container to run a process in, for the service of the folder `root`.

    `mounts` are mounted under the same path. The network `private` is the group's own, where the
    container has a host name. `published` is its port, and a port of 127.0.0.1 that leads to it.
    """

    image: str
    root: str
    mounts: tuple[str, ...] = ()
    network: str = BRIDGE
    host_name: str = ""
    published: tuple[int, int] | None = None


def name_of(group: Path, process: str, *, num_restarts: int = 0) -> str:
    """Return a container's name, `vertex-local-1f0c23a99b1e-worker-0` or `…-r1` once restarted."""
    again = f"-r{num_restarts}" if num_restarts else ""
    return f"{network_of(group)}-{re.sub('[^a-zA-Z0-9_.-]+', '-', process)}{again}"


def network_of(group: Path) -> str:
    """Return the name of a group's private network."""
    return f"vertex-local-{hashlib.sha256(str(group).encode()).hexdigest()[:12]}"


def run_command(
    container: Container,
    *,
    name: str,
    group: Path,
    command: list[str],
    env: Mapping[str, str],
    cwd: str | None,
    user: str | None = None,
) -> list[str]:
    """Return the `docker run` command that runs a command in a container.

    It reads most values of `env` from its own environment (`client_environment`), so that no list
    of processes shows them. `cwd` None is the image's, `user` (UID:GID) None this process's.
    """
    program, *arguments = command
    return [
        *["docker", "run", "--pull", "never", "--rm", "--init", "--name", name],
        *_labels(container.root, group),
        *["--user", user or f"{os.getuid()}:{os.getgid()}"],
        *_network_options(container, group),
        *[word for folder in container.mounts for word in ("--mount", _bind(folder))],
        *_env_options({**DEFAULTS, **env}),
        *(["--workdir", cwd] if cwd else []),
        *["--entrypoint", program, "--", container.image, *arguments],
    ]


def client_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of `docker run`: this process's, with the container's values."""
    values = {**DEFAULTS, **env}
    passed = {name: value for name, value in values.items() if not READ_BY_DOCKER.fullmatch(name)}
    return {**os.environ, **passed}


def create_network(root: str, group: Path) -> None:
    """Create a group's private network, which is internal to this machine.

    Raises:
        OSError: It cannot be created.
    """
    labels = _labels(root, group)
    docker(["docker", "network", "create", "--internal", *labels, network_of(group)])


def killing_signal(exit_code: int) -> int:
    """Return the signal that ended a container, from its exit code; 0 if none did."""
    number = exit_code - SIGNAL_BASE
    return number if 0 < number <= NUM_SIGNALS else 0


def remove(name: str) -> None:
    """Kill and remove a container, if it exists."""
    _try(["docker", "rm", "--force", "--volumes", name])


def remove_group(group: Path) -> None:
    """Remove the containers and the network of a group."""
    _remove_labelled(f"{GROUP_LABEL}={group}")


def remove_root(root: Path) -> None:
    """Remove the containers and networks of every service on this root folder."""
    _remove_labelled(f"{ROOT_LABEL}={root}")


def docker(command: list[str], *, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """Run a `docker` command; return its output.

    Raises:
        OSError: It failed, with its error output, timed out, or is not installed.
    """
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired:
        words = " ".join(command[:3])
        raise OSError(f"`{words}` timed out after {timeout_seconds:g} s") from None
    if done.returncode:
        raise OSError(done.stderr.strip() or f"`{command[1]}` failed: {done.returncode}")
    return done.stdout


def _remove_labelled(label: str) -> None:
    filtered = ["--quiet", "--filter", f"label={label}"]
    ids = _try(["docker", "ps", "--all", *filtered]).split()
    if ids:
        _try(["docker", "rm", "--force", "--volumes", *ids])
    networks = _try(["docker", "network", "ls", *filtered]).split()
    if networks:
        _try(["docker", "network", "rm", *networks])


def _try(command: list[str]) -> str:
    try:
        return docker(command)
    except OSError as error:
        if "No such container" not in str(error):
            log_line(f"{' '.join(command)}: {error}")
        return ""


def _labels(root: str, group: Path) -> list[str]:
    return ["--label", f"{ROOT_LABEL}={root}", "--label", f"{GROUP_LABEL}={group}"]


def _network_options(container: Container, group: Path) -> list[str]:
    if container.network == PRIVATE:
        name = container.host_name
        return [
            "--network",
            network_of(group),
            "--network-alias",
            name,
            "--hostname",
            name,
            *DNS_OPTIONS,
        ]
    options = ["--network", container.network]
    if container.published:
        inside, outside = container.published
        options += ["--publish", f"127.0.0.1:{outside}:{inside}"]
    return options


def _bind(folder: str) -> str:
    return f"type=bind,source={folder},target={folder}"


def _env_options(env: Mapping[str, str]) -> list[str]:
    return [
        word
        for name, value in env.items()
        for word in ("--env", f"{name}={value}" if READ_BY_DOCKER.fullmatch(name) else name)
    ]
