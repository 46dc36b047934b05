"""Errors and warnings of a file, collected while its sections are read."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainer.cluster.roles import MAX_REPLICAS
from trainer.errors import ClusterError, did_you_mean

T = TypeVar("T")
_DIGITS = re.compile("[0-9]{1,18}")
_SECONDS = re.compile(r"(\d{1,18})(\.0+)?s")


@dataclass
class Findings:
    """Errors, which make a cluster unusable, and warnings."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def raise_errors(self) -> None:
        """Raise ClusterError if there are errors."""
        if self.errors:
            raise ClusterError(*self.errors)


class Section:
    """A mapping in a file. Reading a missing or wrong value returns its default.

    Args:
        value: the mapping; None is an empty one, anything else an error.
        path: its place in the file, for messages: `trainingInput.masterConfig`.
        findings: receives errors and warnings.
        keys: the keys that are read.
        ignored: the keys that are allowed but not read.
        rename: maps a key of the file to one of `keys`.
    """

    def __init__(
        self,
        value: Any,
        *,
        path: str,
        findings: Findings,
        keys: Iterable[str],
        ignored: Iterable[str] = (),
        rename: Callable[[str], str] = str,
    ) -> None:
        self._path, self.findings, self._rename = path, findings, rename
        self._values: dict[str, Any] = {}
        if isinstance(value, Mapping):
            self._add(value, tuple(keys), tuple(ignored))
        elif value is not None:
            findings.errors.append(f"{path} is {value!r}; it must hold keys and values")

    def _add(
        self, values: Mapping[Any, Any], keys: tuple[str, ...], ignored: tuple[str, ...]
    ) -> None:
        unread = []
        for written, value in values.items():
            key = self._rename(written) if isinstance(written, str) else written
            if key in self._values:
                self.findings.errors.append(f"{self.name(key)} is given twice, also as {written!r}")
            elif key in keys:
                self._values[key] = value
            elif key in ignored:
                unread.append(self.name(key))
            else:
                self.findings.errors.append(unknown_key(written, keys, path=self._path))
        if unread:
            self.findings.warnings.append(
                f"{', '.join(unread)}: ignored; a cluster file has only the shape of the cluster"
            )

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def name(self, key: object) -> str:
        """Return the key with its path, for messages."""
        return f"{self._path}.{key}" if self._path else str(key)

    def get(self, key: str) -> Any:
        """Return the value unchecked, or None."""
        return self._values.get(key)

    def section(self, key: str, *, keys: Iterable[str], ignored: Iterable[str] = ()) -> "Section":
        """Return the mapping below `key`."""
        return Section(
            self.get(key),
            path=self.name(key),
            findings=self.findings,
            keys=keys,
            ignored=ignored,
            rename=self._rename,
        )

    def count(self, key: str, *, default: int = 0, at_least: int = 0) -> int:
        """Return a whole number, which may be a text of digits, as in Google's JSON."""
        value = self.get(key)
        number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
        if type(number) is int and at_least <= number <= MAX_REPLICAS:
            return number
        allowed = f"it must be a whole number from {at_least} to {MAX_REPLICAS}"
        return self._wrong(key, allowed, default)

    def text(self, key: str, *, default: str = "") -> str:
        """Return a text that is not empty."""
        value = self.get(key)
        if isinstance(value, str) and value:
            return value
        return self._wrong(key, "it must be a text", default)

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.get(key)
        return (
            value
            if isinstance(value, bool)
            else self._wrong(key, "it must be true or false", False)
        )

    def one_of(self, key: str, allowed: Iterable[str], *, default: str) -> str:
        """Return one of the allowed texts."""
        value, allowed = self.get(key), tuple(allowed)
        if isinstance(value, str) and value in allowed:
            return value
        hint = did_you_mean(value, allowed).lstrip()
        return self._wrong(key, f"{hint} allowed are {', '.join(allowed)}".lstrip(), default)

    def seconds(self, key: str, *, default: int) -> int:
        """Return a duration that is written as in Google's APIs, `3600s`."""
        value = self.get(key)
        match = _SECONDS.fullmatch(value) if isinstance(value, str) else None
        if match and int(match[1]):
            return int(match[1])
        return self._wrong(key, "write whole seconds with an s, as 3600s", default)

    def texts(self, key: str) -> list[str]:
        """Return a list of texts."""
        value = self.get(key)
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return value
        return self._wrong(key, "it must be a list of texts", [])

    def _wrong(self, key: str, allowed: str, default: T) -> T:
        if key in self:
            self.findings.errors.append(f"{self.name(key)} is {self.get(key)!r}; {allowed}")
        return default


def unknown_key(key: object, allowed: Iterable[str], *, path: str = "") -> str:
    """Return the error for a key that is not allowed, with a did-you-mean suggestion."""
    allowed = tuple(allowed)
    return (
        f"unknown key {key!r} in {path or 'the cluster'};{did_you_mean(key, allowed)} allowed are"
        f" {', '.join(allowed)}"
    )
