"""What is wrong with a cluster file, all of it at once; and its parts, checked as they are read."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainer.errors import ClusterError
from trainer.suggest import did_you_mean

T = TypeVar("T")
_SECONDS = re.compile(r"(\d+)(\.0+)?s")


@dataclass
class Findings:
    """Errors, with which the cluster cannot be used, and warnings, with which it can."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def raise_errors(self) -> None:
        """Raises ClusterError if there are any."""
        if self.errors:
            raise ClusterError(*self.errors)


class Section:
    """A mapping of the file. What is missing has the default; what is wrong has it, too.

    Args:
        value: What the file holds here.
        path: Where that is, for messages: `trainingInput.masterConfig`.
        findings: Where errors and warnings go.
        keys: The keys that are read.
        left_out: The keys that are allowed and not read.
        rename: From a key in the file to one of `keys`.
    """

    def __init__(
        self,
        value: Any,
        *,
        path: str,
        findings: Findings,
        keys: Iterable[str],
        left_out: Iterable[str] = (),
        rename: Callable[[str], str] = str,
    ) -> None:
        self._path, self.findings, self._rename = path, findings, rename
        self._values: dict[str, Any] = {}
        if value is None:
            return
        if not isinstance(value, Mapping):
            findings.errors.append(f"{path} is {value!r}; it must hold keys and values")
            return
        self._take(value, tuple(keys), tuple(left_out))

    def _take(self, values: Mapping[Any, Any], keys: tuple[str, ...], out: tuple[str, ...]) -> None:
        unread = []
        for given, value in values.items():
            key = self._rename(given) if isinstance(given, str) else given
            if key in self._values:
                self.findings.errors.append(f"{self.name(key)} is given twice, also as {given!r}")
            elif key in keys:
                self._values[key] = value
            elif key in out:
                unread.append(self.name(key))
            else:
                self.findings.errors.append(unknown_key(given, keys, where=self._path))
        if unread:
            self.findings.warnings.append(
                f"{', '.join(unread)}: left out; a cluster file only says the shape"
            )

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def name(self, key: object) -> str:
        """The key with its path, for messages."""
        return f"{self._path}.{key}" if self._path else str(key)

    def get(self, key: str) -> Any:
        """The value as it is, or None."""
        return self._values.get(key)

    def section(self, key: str, *, keys: Iterable[str], left_out: Iterable[str] = ()) -> "Section":
        """The mapping below `key`."""
        return Section(
            self.get(key),
            path=self.name(key),
            findings=self.findings,
            keys=keys,
            left_out=left_out,
            rename=self._rename,
        )

    def count(self, key: str, *, default: int = 0, at_least: int = 0) -> int:
        """A whole number; a text of digits is one, too, as in JSON from Google."""
        value = self.get(key)
        number = int(value) if isinstance(value, str) and value.isdecimal() else value
        if type(number) is int and number >= at_least:
            return number
        return self._wrong(key, f"it must be a whole number of at least {at_least}", default)

    def text(self, key: str, *, default: str = "") -> str:
        """A text that is not empty."""
        value = self.get(key)
        if isinstance(value, str) and value:
            return value
        return self._wrong(key, "it must be a text", default)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.get(key)
        if isinstance(value, bool):
            return value
        return self._wrong(key, "it must be true or false", default)

    def one_of(self, key: str, allowed: Iterable[str], *, default: str) -> str:
        """One of the allowed texts."""
        value, allowed = self.get(key), tuple(allowed)
        if isinstance(value, str) and value in allowed:
            return value
        hint = did_you_mean(value, allowed).lstrip()
        return self._wrong(key, f"{hint} allowed are {', '.join(allowed)}".lstrip(), default)

    def seconds(self, key: str, *, default: int) -> int:
        """A duration as Google's APIs write it, `3600s`."""
        value = self.get(key)
        match = _SECONDS.fullmatch(value) if isinstance(value, str) else None
        if match and int(match[1]):
            return int(match[1])
        return self._wrong(key, "write whole seconds with an s, as 3600s", default)

    def texts(self, key: str) -> list[str]:
        """A list of texts."""
        value = self.get(key)
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return value
        return self._wrong(key, "it must be a list of texts", [])

    def _wrong(self, key: str, allowed: str, default: T) -> T:
        if key in self:
            self.findings.errors.append(f"{self.name(key)} is {self.get(key)!r}; {allowed}")
        return default


def unknown_key(key: object, allowed: Iterable[str], *, where: str = "") -> str:
    """The message about a key that is not allowed; names the one that may be meant."""
    allowed = tuple(allowed)
    hint = did_you_mean(key, allowed)
    place = where or "the cluster"
    return f"unknown key {key!r} in {place};{hint} allowed are {', '.join(allowed)}"
