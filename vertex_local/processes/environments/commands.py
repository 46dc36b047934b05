"""Packages that a step of KFP installs before it begins, read from its command.

`@dsl.component` compiles to `sh -c SCRIPT sh -ec …`, where SCRIPT runs `pip install` and then
`"$0" "$@"`, the rest of the command. kfp 2.0 to 2.17 all write the same lines.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement

PIP_PROGRAMS = (
    ("python3", "-m", "pip", "install"),
    ("python", "-m", "pip", "install"),
    ("pip", "install"),
    ("pip3", "install"),
)
# Other lines of the script: a check for pip, and `use_venv=True`. An environment has pip and is a
# virtual environment, so these can be skipped.
KFP_LINES = {
    'if ! [ -x "$(command -v pip)" ]; then',
    "python3 -m ensurepip || python3 -m ensurepip --user || apt-get install python3-pip",
    "fi",
    "export PIP_DISABLE_PIP_VERSION_CHECK=1",
    "tmp=$(mktemp -d)",
    'python3 -m venv "$tmp/venv" --system-site-packages',
    '. "$tmp/venv/bin/activate"',
}
KFP_ASSIGNMENT = "PIP_DISABLE_PIP_VERSION_CHECK=1"
FLAGS = {"--no-deps", "--upgrade", "-U", "--pre", "--no-cache-dir"}
# Without an effect on the packages; uv does not have the last one.
QUIET_FLAGS = {"--quiet", "-q", "-qq", "-qqq", "--no-warn-script-location"}
VALUE_FLAGS = {
    *("--index-url", "-i", "--extra-index-url", "--trusted-host", "--find-links", "-f"),
    *("--only-binary", "--no-binary", "--constraint", "-c", "--requirement", "-r"),
}
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
SHELL = re.compile(r"[$`;|<>&()]")  # `~=` and `==1.*` are requirements
CREDENTIALS = re.compile(r"//[^/@\s]+@")


@dataclass(frozen=True)
class Step:
    """A step's command without the installation, and the arguments of each `pip install`."""

    command: tuple[str, ...]
    installs: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, command: list[str]) -> "Step":
        """Parse a command; one that is not in KFP's form is kept whole, with no installs.

        A shell runs such a command, and its pip installs into the layer of that step.
        """
        match command:
            case ["sh", "-c" | "-ec", script, program, *arguments]:
                installs = _installs(script)
                return cls((program, *arguments), installs) if installs else cls(tuple(command))
        return cls(tuple(command))

    @cached_property
    def requirements(self) -> tuple[str, ...]:
        """Packages in the order of installation, without credentials."""
        words = (word for arguments in self.installs for word in _requirements(arguments))
        return tuple(CREDENTIALS.sub("//***@", word) for word in words if _applies(word))

    @property
    def needs_environment(self) -> bool:
        """True if it requires anything except the kfp of this service."""
        return bool(set(self.requirements) - {own_kfp()})


def own_kfp() -> str:
    """Return the requirement for the kfp of this service."""
    return f"kfp=={metadata.version('kfp')}"


def _installs(script: str) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of each `pip install`; nothing if the script does anything else."""
    lines = script.replace("\\\n", " ").split("\n")
    kept = "\n".join(line for line in lines if line.strip() not in KFP_LINES)
    statements = map(str.strip, re.split("&&|\n", kept))
    *commands, last = [text for text in statements if text not in ("", KFP_ASSIGNMENT)] or [""]
    installs = [_pip_arguments(command) for command in commands]
    if last != '"$0" "$@"' or not all(installs):
        return ()
    return tuple(tuple(arguments) for arguments in installs)


def _pip_arguments(statement: str) -> list[str]:
    """Return the arguments of a `pip install`, without quiet flags; nothing for other commands.

    Nothing also for one with flags for a target folder, or with what only a shell understands.
    """
    if SHELL.search(QUOTED.sub("", statement)) or "$" in statement or "`" in statement:
        return []
    try:
        words = shlex.split(statement.removeprefix(KFP_ASSIGNMENT))
    except ValueError:  # an open quotation
        return []
    program = next((p for p in PIP_PROGRAMS if tuple(words[: len(p)]) == p), None)
    if program is None:
        return []
    arguments = [word for word in words[len(program) :] if word not in QUIET_FLAGS]
    return arguments if next(_requirements(arguments), None) else []


def _requirements(arguments: list[str] | tuple[str, ...]) -> Iterator[str]:
    """Yield the packages among pip's arguments; nothing if a flag is unknown."""
    flags = {word.partition("=")[0] for word in arguments if word.startswith("-")}
    if not flags <= FLAGS | VALUE_FLAGS:
        return
    before = ""
    for word in arguments:
        if not word.startswith("-") and before not in VALUE_FLAGS:
            yield word
        before = word


def _applies(requirement: str) -> bool:
    """Return whether a requirement applies to this Python; KFP always adds one for 3.8."""
    try:
        marker = Requirement(requirement).marker
    except InvalidRequirement:  # a path or an address
        return True
    return marker is None or marker.evaluate()
