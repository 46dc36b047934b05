"""A command line that says what may be meant by a mistyped command or option."""

import argparse
import re
from collections.abc import Iterator
from typing import NoReturn

from trainer.suggest import did_you_mean

WRONG_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<allowed>.*)\)")
WRONG_OPTION = re.compile(r"unrecognized arguments: (?P<given>--[^ =]+)")


class Parser(argparse.ArgumentParser):
    """argparse's, with `did you mean`; its subparsers are of this class, too."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message with a suggestion, and exit with 2."""
        if found := WRONG_CHOICE.search(message):
            message += _hint(found["given"], re.findall(r"'([^']*)'", found["allowed"]))
        elif found := WRONG_OPTION.search(message):
            message += _hint(found["given"], _options(self))
        super().error(message)


def _hint(given: str, allowed: list[str]) -> str:
    hint = did_you_mean(given, allowed)
    return f";{hint}" if hint else ""


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the options of a parser and of its subparsers."""
    return sorted({option for one in _parsers(parser) for option in one._option_string_actions})


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from _parsers(one)
