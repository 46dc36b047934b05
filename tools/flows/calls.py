"""Calls of Google's SDK, each right or wrong, counted by flow."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """A call of the SDK; `reason` says what is wrong with it, and is empty if it is right."""

    flow: str
    name: str
    reason: str


class Calls:
    """The calls of a flow so far. Called with a name and a function, it adds one."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self.all: list[Call] = []

    def __call__(self, name: str, function: Callable[[], Any]) -> Any:
        """Call a function; it is right if it raises nothing and does not return False."""
        result, reason = None, ""
        try:
            result = function()
        except Exception as error:  # of the SDK, of its HTTP client, of a check
            reason = f"{type(error).__name__}: {error}"
        if result is False:
            reason = "another result"
        self.all.append(Call(self._flow, name, reason[:500]))
        return result

    def raises(self, name: str, error: type[Exception], function: Callable[[], Any]) -> None:
        """Call a function that must raise this error."""

        def is_raised() -> bool:
            try:
                function()
            except error:
                return True
            return False

        self(name, is_raised)
