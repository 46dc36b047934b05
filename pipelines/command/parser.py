"""Argument parser with did-you-mean suggestions, argument types, and `--version`."""

import argparse
import math
import pkgutil
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from trainer import Json
from trainer.errors import did_you_mean

WRONG_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<allowed>.*)\)")
WRONG_OPTION = re.compile(r"unrecognized arguments: (?P<given>--[^ =]+)")
SHELLS = ("bash", "zsh", "fish")
CLUSTERS = "configs/clusters"
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

    def format_help(self) -> str:
        """Return the help; of a wheel's files the folder in which it has put them."""
        installed = Path(sys.prefix, "share", "trainyard", CLUSTERS)
        is_here = Path(CLUSTERS).is_dir() or not installed.is_dir()
        return super().format_help().replace(CLUSTERS, CLUSTERS if is_here else str(installed))

    def refuse(self, unknown: list[str], command: list[str]) -> NoReturn:
        """Exit because of arguments that no command has; `command` if it passes flags on."""
        message = f"unrecognized arguments: {' '.join(unknown)}"
        if command and unknown[0].startswith("-") and not _hint(unknown[0], _options(self)):
            words = [self.prog, *(word for word in command if word not in unknown), "--", *unknown]
            message += f"; flags of the trainer follow --: {shlex.join(words)}"
        self.error(message)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message with a suggestion, and exit with 2."""
        if match := WRONG_CHOICE.search(message):
            message += _hint(match["given"], re.findall(r"'([^']*)'", match["allowed"]))
        elif match := WRONG_OPTION.search(message):
            options = _options(self)
            hint = _hint(match["given"], options)
            if not hint and "--set" in options:
                hint = "; a setting is --set KEY=VALUE, as `trainyard settings --all` lists them"
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
            *packages,
        ]
        print("\n".join(lines))
        parser.exit()


class PrintCompletion(argparse.Action):
    """Option that prints the completion for a shell, and exits."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: Any, shell: Any, __: str | None = None
    ) -> None:
        """Print a script that calls `trainyard --complete`."""
        from pipelines.command.completion import print_script

        print_script(shell)
        parser.exit()


def words_of(parser: argparse.ArgumentParser) -> Json:
    """Return the commands, options and arguments of a parser, for `completion`."""
    if isinstance(parser, Parser):
        parser.load()
    words: Json = {"commands": {}, "words": {}, "kinds": {}, "arguments": []}
    formatter = parser._get_formatter()
    for action in parser._actions:
        text = formatter._expand_help(action).partition(";")[0] if action.help else ""
        kind: Any = "" if action.nargs == 0 else str(action.metavar or action.dest)
        if isinstance(action, argparse._SubParsersAction):
            words["words"] |= {each.dest: each.help or "" for each in action._choices_actions}
            words["commands"] |= {name: words_of(sub) for name, sub in action.choices.items()}
            continue
        if action.choices is not None:
            kind = dict.fromkeys(map(str, action.choices), "")
        elif text.startswith("cluster file"):
            kind = "CLUSTER"
        if not action.option_strings:
            words["arguments"].append(kind)
        words["kinds"] |= dict.fromkeys(action.option_strings, kind)
        words["words"] |= dict.fromkeys(action.option_strings, text)
    return words


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


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _parsers(sub)
