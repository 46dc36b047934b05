"""A small input that people have, and what is right for it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.data.prepared import Prepared
from trainer.workloads import Workload

HOSTILE = '''a"""+str(open("PWNED","w"))+"""'''  # a name that must stay a text


def nothing_is_executed() -> bool:
    """Return whether no name was executed in the current folder or below."""
    return not [*Path().rglob("PWNED")]


@dataclass(frozen=True)
class Result(Prepared):
    """Result of the commands for a case; `workload` as `new` wrote it."""

    workload: Workload

    def values(self, name: str, split: str = "*") -> set[Any]:
        """Return the values that a feature has in the examples, None where it is missing."""
        return {*super().values(name, split)}


@dataclass(frozen=True)
class Case:
    """An input and what is right for it.

    Attributes:
        write: writes the files into a folder.
        words: the arguments of `new`; the files are in its current folder.
        says: patterns of what `new` prints.
        declares: texts of workload.py.
        refused: True if `new` writes nothing.
        checked: a pattern of the check's detail, or of its problems.
        facts: returns whether the result is right.
        same_as: another case whose examples have the same bytes.
    """

    write: Callable[[Path], None]
    words: str
    says: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    refused: bool = False
    checked: str = "0 quarantined"
    facts: Callable[[Result], bool] = lambda _: True
    same_as: str = ""
