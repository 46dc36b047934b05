"""The check that a project's requirements.txt is installed."""

import importlib.metadata
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from components.shared.text.user_file import FileError, read_text_file
from trainer.errors import ConfigError

# An editable package, a path, an address or a file.
_UNNAMED = re.compile(r"(-e|--editable)\b|[./]|\S+://|\S+\.(whl|zip|tar\.gz)$")


def check_requirements(path: Path) -> None:
    """Check that all packages of a requirements.txt are installed in this environment.

    Raises:
        ConfigError: some are missing or have another version, or a line is no requirement.
    """
    problems = [problem for entry in read_requirements(path) if (problem := _problem(entry))]
    if problems:
        command = shlex.join([sys.executable, "-m", "pip", "install", "-r", str(path)])
        raise ConfigError(f"{path} needs {', '.join(problems)}; run: {command}")


def read_requirements(path: Path) -> Iterator[Requirement]:
    """Yield the requirements of a file and of the files that it names with -r.

    Other options of pip are skipped.

    Raises:
        ConfigError: it cannot be read, or a line is no requirement or one without a name, which
            cannot be looked up; names file and line.
    """
    try:
        lines = read_text_file(path).splitlines()
    except (OSError, FileError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    for number, text in _logical_lines(lines):
        if included := re.fullmatch(r"(?:-r|--requirement)[ =](.+)", text):
            yield from read_requirements(path.parent / included[1].strip())
        elif _UNNAMED.match(text):
            raise ConfigError(
                f"{path}, line {number}: {text!r} does not say which package it is, so it cannot be"
                " looked up; write NAME @ git+https://…, NAME @ https://… or NAME @ file:///…"
            )
        elif not text.startswith("-"):
            try:
                yield Requirement(re.split(r"\s--?\w", text)[0])
            except InvalidRequirement as error:
                reason = str(error).splitlines()[0]
                raise ConfigError(f"{path}, line {number}: {text!r}: {reason}") from error


def _logical_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither empty nor comments, joined where they end with a backslash.

    https://pip.pypa.io/en/stable/reference/requirements-file-format/
    """
    joined, first = "", 1
    for number, line in enumerate(lines, start=1):
        first = first if joined else number
        joined += line.removesuffix("\\")
        if line.endswith("\\"):
            joined += " "
            continue
        if text := re.sub(r"(^|\s+)#.*", "", joined).strip():
            yield first, text
        joined = ""


def _problem(requirement: Requirement) -> str:
    """Return the requirement and what is installed instead; "" if it is met."""
    if requirement.marker and not requirement.marker.evaluate():
        return ""
    wanted = f"{requirement.name}{requirement.specifier}"
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{wanted} (not installed)"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{wanted} ({version} is installed)"
