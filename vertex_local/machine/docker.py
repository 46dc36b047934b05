"""How a process runs in a container instead of on this machine: the `docker` commands for it.

A replica is then the process of `docker run`, which hands on signals, writes what the container
says and ends with its exit code. Only a kill it cannot hand on, hence the labels: by them whatever
is left over is found and removed. The standard library only.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT_LABEL = "vertex-local.root"
GROUP_LABEL = "vertex-local.group"
PRIVATE, HOST, BRIDGE = "private", "host", "bridge"
TIMEOUT_SECONDS = 60.0
NUM_SIGNALS = 64
SIGNAL_BASE = 128
# What `docker` itself reads, so that it must not see a container's: these go with their values.
READ_BY_DOCKER = re.compile(
    r"(?i)(DOCKER|LD|OTEL|SSL)_.*|GO(DEBUG|GC|MAXPROCS|MEMLIMIT|TRACEBACK)|HOME|PATH|.*_PROXY"
)
# TMPDIR ends with the container. The last one has its init signal all processes, as is done here.
DEFAULTS = {
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "PYTHONUNBUFFERED": "1",
    "TINI_KILL_PROCESS_GROUP": "1",
}
# Docker does not answer for a host that is not there yet, and asking again then takes 10 s.
DNS_OPTIONS = ["--dns-option", "timeout:1", "--dns-option", "attempts:1"]


class DockerError(OSError):
    """What `docker` says of a command that has failed."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """What a process runs in.

    Attributes:
        image: Its name; never pulled.
        root: The folder of the service, for the label.
        mounts: Folders that it sees under the same path.
        network: `host`, `bridge`, or `private`: the one of its group.
        host_name: What the others on a private network call it.
        published: Its port, and the one on 127.0.0.1 by which it is reached.
    """

    image: str
    root: str
    mounts: tuple[str, ...] = ()
    network: str = BRIDGE
    host_name: str = ""
    published: tuple[int, int] | None = None


def name_of(group: Path, process: str, *, num_restarts: int = 0) -> str:
    """A container's name: `vertex-local-1f0c23a99b1e-worker-0`, and `-r1` when started again."""
    again = f"-r{num_restarts}" if num_restarts else ""
    return f"{network_of(group)}-{re.sub('[^a-zA-Z0-9_.-]+', '-', process)}{again}"


def network_of(group: Path) -> str:
    """The name of a group's private network."""
    return f"vertex-local-{hashlib.sha256(str(group).encode()).hexdigest()[:12]}"


def run_command(
    container: Container,
    *,
    name: str,
    group: Path,
    command: list[str],
    env: Mapping[str, str],
    cwd: str | None,
    cores: tuple[int, ...] = (),
    user: str | None = None,
    id_path: Path | None = None,
) -> list[str]:
    """The `docker run` that runs a command in a container to its end.

    Its id is written to `id_path`, which must not exist.
    The values of `env` are to be in its environment (`client_environment`), where no list of
    processes shows them. Without a `cwd` it is the image's.
    """
    program, *arguments = command
    return [
        *["docker", "run", "--pull", "never", "--rm", "--init", "--name", name],
        *(["--cidfile", str(id_path)] if id_path else []),
        *_labels(container.root, group),
        *["--user", user or f"{os.getuid()}:{os.getgid()}"],
        *_network_options(container, group),
        *[word for folder in container.mounts for word in ("--mount", _bind(folder))],
        *_env_options({**DEFAULTS, **env}),
        *(["--workdir", cwd] if cwd else []),
        *(["--cpuset-cpus", ",".join(map(str, cores))] if cores else []),
        *["--entrypoint", program, "--", container.image, *arguments],
    ]


def client_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of `docker run`: this process's own, and what the container is to have."""
    given = {**DEFAULTS, **env}
    unread = {name: value for name, value in given.items() if not READ_BY_DOCKER.fullmatch(name)}
    return {**os.environ, **unread}


def network_command(root: str, group: Path) -> list[str]:
    """The command that makes a group's private network, from which no way leads out."""
    return ["docker", "network", "create", "--internal", *_labels(root, group), network_of(group)]


def create_network(root: str, group: Path) -> None:
    """Makes a group's private network.

    Raises:
        DockerError: it cannot be made.
    """
    docker(network_command(root, group))


def killing_signal(exit_code: int) -> int:
    """The signal that has ended a container, by its exit code; 0 if none has."""
    number = exit_code - SIGNAL_BASE
    return number if 0 < number <= NUM_SIGNALS else 0


def remove(name: str) -> None:
    """Kills and removes a container; harmless if it is gone."""
    _try(["docker", "rm", "--force", "--volumes", name])


def remove_group(group: Path) -> None:
    """Removes the containers of a group, and its network."""
    _remove_labelled(f"{GROUP_LABEL}={group}")


def remove_root(root: Path) -> None:
    """Removes all that a service on this folder has left."""
    _remove_labelled(f"{ROOT_LABEL}={root}")


def docker(command: list[str], *, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """Runs a `docker` command and answers what it prints.

    Raises:
        DockerError: it has failed, or was not done in time.
        FileNotFoundError: there is no `docker`.
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
        raise DockerError(f"`{words}` was not done within {timeout_seconds:g} s") from None
    if done.returncode:
        raise DockerError(done.stderr.strip() or f"`{command[1]}` failed: {done.returncode}")
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
            sys.stderr.write(f"{' '.join(command)}: {error}\n")
        return ""


def _labels(root: str, group: Path) -> list[str]:
    return ["--label", f"{ROOT_LABEL}={root}", "--label", f"{GROUP_LABEL}={group}"]


def _network_options(container: Container, group: Path) -> list[str]:
    if container.network == PRIVATE:
        name = container.host_name
        names = ["--network-alias", name, "--hostname", name]
        return ["--network", network_of(group), *names, *DNS_OPTIONS]
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
