"""Argument parser with did-you-mean suggestions, argument types, and `--version`."""

import argparse
import math
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from trainer.errors import did_you_mean

WRONG_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<allowed>.*)\)")
WRONG_OPTION = re.compile(r"unrecognized arguments: (?P<given>--[^ =]+)")
SHELLS = ("bash", "zsh", "tcsh", "fish")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
VERSIONED_PACKAGES = (
    "kfp",
    "tensorflow",
    "google-cloud-pipeline-components",
    "google-cloud-aiplatform",
)


class Parser(argparse.ArgumentParser):
    """Argument parser with did-you-mean suggestions; its subparsers are of this class, too.

    Args:
        arguments: `module:function`, imported and called with this parser when it is first used:
            a command imports its own modules, and no others.
        options: Those of argparse.
    """

    def __init__(self, *, arguments: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._arguments = arguments

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, after adding the parser's arguments; argparse calls it for subparsers as well."""
        self.load()
        return super().parse_known_args(args, namespace)

    def load(self) -> None:
        """Add the parser's arguments if they are not yet."""
        if self._arguments:
            add_arguments = pkgutil.resolve_name(self._arguments)
            self._arguments = ""
            add_arguments(self)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message with a suggestion, and exit with 2."""
        if match := WRONG_CHOICE.search(message):
            message += _hint(match["given"], re.findall(r"'([^']*)'", match["allowed"]))
        elif match := WRONG_OPTION.search(message):
            options = _options(self)
            hint = _hint(match["given"], options)
            if not hint and "--set" in options:
                hint = "; a setting is --set KEY=VALUE, as `trainyard settings` lists them"
            message += hint
        super().error(message)


class ShowVersion(argparse.Action):
    """Option that prints the versions to include in a bug report, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        """Print the versions of Trainyard, Python and the main packages, a line each."""
        import platform

        packages = (f"  {name} {_version(name)}" for name in VERSIONED_PACKAGES)
        lines = [
            f"{parser.prog} {_version('trainyard-pipelines')}",
            f"  Python {platform.python_version()}",
        ]
        sys.stdout.write("\n".join([*lines, *packages, ""]))
        parser.exit()


class PrintCompletion(argparse.Action):
    """Option that prints the completion of all commands for a shell, and exits."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: Any, shell: Any, __: str | None = None
    ) -> None:
        """Print a script for the shell; https://docs.iterative.ai/shtab."""
        import shtab

        for each in _parsers(parser, loads=True):
            for action in each._actions:
                if action.type is Path:
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
        sys.stdout.write(shtab.complete(parser, shell))
        parser.exit()


def seconds(text: str) -> int:
    """Return the seconds of a duration such as `90`, `90s`, `30m`, `2h` or `30d`."""
    match = re.fullmatch(r"(\d{1,9})([smhd]?)", text, re.ASCII)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; give a whole number above 0 of seconds, or 90s, 30m, 2h, 30d"
        )
    return int(match[1]) * SECONDS[match[2]]


def count(text: str) -> int:
    """Return a whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a whole number, 0 or more")
    return int(text)


def dollars(text: str) -> float:
    """Return an amount of money above 0."""
    try:
        amount = float(text)
    except ValueError:
        amount = 0
    if not 0 < amount < math.inf:  # not NaN either
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a number above 0, as 12.5")
    return amount


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _hint(typed: str, allowed: list[str]) -> str:
    hint = did_you_mean(typed, allowed)
    return f";{hint}" if hint else ""


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return sorted({option for sub in _parsers(parser) for option in sub._option_string_actions})


def _parsers(
    parser: argparse.ArgumentParser, *, loads: bool = False
) -> Iterator[argparse.ArgumentParser]:
    if loads and isinstance(parser, Parser):
        parser.load()
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _parsers(sub, loads=loads)
