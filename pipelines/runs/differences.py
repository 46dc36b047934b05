"""`trainyard runs diff`: where two runs differ in settings, data, code and metrics."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from components.run_summary.summary import Summary
from pipelines.resources import Table
from pipelines.runs.tables import shown

MOST_CHARACTERS = 20
DIGITS = 12
MISSING = "-"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A fact of two runs; None where one of them has it not."""

    kind: str
    name: str
    first: Any
    second: Any

    @property
    def title(self) -> str:
        """The name for a person."""
        titles = {"metrics": f"test {self.name}", "run": self.name.replace("_", " ")}
        return titles.get(self.kind, self.name)

    @property
    def is_same(self) -> bool:
        """Whether the runs agree."""
        return bool(self.first == self.second)

    @property
    def change(self) -> float | None:
        """By how much a number has changed; None of anything else."""
        values = (self.first, self.second)
        if any(isinstance(one, bool) or not isinstance(one, int | float) for one in values):
            return None
        return float(self.second - self.first)


def compare(first: Summary, second: Summary, *, has_all: bool = False) -> list[Difference]:
    """Return the facts in which two runs differ, or with `has_all` every one."""
    found = list(_facts(first, second))
    return [one for one in found if has_all or not one.is_same]


def differences_table(found: list[Difference]) -> Table:
    """Return a row for each fact; long values are cut."""
    rows: list[tuple[str, ...]] = [
        (one.title, _cell(one.first), _cell(one.second), _change(one)) for one in found
    ]
    return Table(("", "A", "B", "CHANGE"), rows)


def differences_json(first: Summary, second: Summary, found: list[Difference]) -> dict[str, Any]:
    """Return the same, whole."""
    kinds: dict[str, dict[str, Any]] = {}
    for one in found:
        kinds.setdefault(one.kind, {})[one.name] = {"a": one.first, "b": one.second}
    return {"a": first.run, "b": second.run, **kinds}


def _facts(first: Summary, second: Summary) -> Iterator[Difference]:
    for name in ("outcome", "model_version", "data_digest", "code_digest"):
        values = [getattr(one, name) or None for one in (first, second)]
        yield Difference(kind="run", name=name, first=values[0], second=values[1])
    for kind in ("settings", "metrics"):
        ours: dict[str, Any] = getattr(first, kind)
        theirs: dict[str, Any] = getattr(second, kind)
        for name in sorted({*ours, *theirs}):
            yield Difference(kind=kind, name=name, first=ours.get(name), second=theirs.get(name))


def _cell(value: Any) -> str:
    if value is None:
        return MISSING
    text = f"{value:.6g}" if isinstance(value, float) else shown(value)
    if text.startswith("sha256:"):
        return text[len("sha256:") :][:DIGITS]
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _change(one: Difference) -> str:
    return "" if one.change in (None, 0.0) else f"{one.change:+.4g}"
