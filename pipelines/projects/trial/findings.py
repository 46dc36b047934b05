"""Findings of a check: a line for each thing that was tried, with the mistakes that it has."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

OK, WRONG, NOT_TRIED, TIMED_OUT = "ok", "wrong", "not tried", "timed out"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of trying one thing: what was found, or why it was not tried, as its `detail`.

    Each of its `problems` is one line, which begins with the file and line if it has one.
    """

    name: str
    state: str = OK
    detail: str = ""
    problems: Sequence[str] = ()
    seconds: float = 0.0

    def to_json(self) -> str:
        """Return the finding as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def wrong(cls, name: str, *problems: str) -> "Finding":
        """Return the finding of mistakes."""
        return cls(name=name, state=WRONG, problems=problems)


class ProblemsError(Exception):
    """Several independent mistakes of one thing."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems
