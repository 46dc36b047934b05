"""Differences between two runs in settings, data, code and metrics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.run_result.summary import Summary
from components.shared.text.value_text import number_text
from pipelines.resources.table import TextTable
from pipelines.runs.output.tables import shown
from trainer import Json
from trainer.metrics.directions import HIGHER_IS_BETTER, LOWER_IS_BETTER

if TYPE_CHECKING:  # imports NumPy, which most commands on runs do not need
    from components.evaluate.gate.gain import Gain

MAX_CELL_WIDTH = 20
DIGEST_DIGITS = 12
MISSING = "-"
# Whether more is better, by metric.
DIRECTIONS = dict.fromkeys(HIGHER_IS_BETTER, True) | dict.fromkeys(LOWER_IS_BETTER, False)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A fact of two runs; None if a run lacks it."""

    kind: str
    name: str
    first: Any
    second: Any

    @property
    def title(self) -> str:
        """Return the name as tables show it."""
        titles = {"metrics": f"test {self.name}", "run": self.name.replace("_", " ")}
        return titles.get(self.kind, self.name)

    @property
    def is_same(self) -> bool:
        """Return whether both runs have the same value."""
        return bool(self.first == self.second)

    @property
    def change(self) -> float | None:
        """Return the second number minus the first; None for other values."""
        values = (self.first, self.second)
        if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
            return None
        return float(self.second - self.first)


def compare(first: Summary, second: Summary, *, has_all: bool = False) -> list[Difference]:
    """Return the facts in which two runs differ, or all facts with `has_all`."""
    facts = list(_facts(first, second))
    return [fact for fact in facts if has_all or not fact.is_same]


def difference_row(fact: Difference) -> tuple[str, ...]:
    """Return a fact's title, its values, cut if they are long, and the change of a number."""
    return fact.title, _cell(fact.first), _cell(fact.second), _change(fact)


def judged_table(differences: list[Difference], gains: "Mapping[str, Gain]") -> TextTable:
    """Return a row for each fact, with a column that says whether B is better or worse."""
    rows = [(*difference_row(fact), _judgement(fact, gains)) for fact in differences]
    return TextTable(("", "A", "B", "CHANGE", "B IS"), rows)


def differences_json(
    first: Summary, second: Summary, differences: list[Difference], gains: "Mapping[str, Gain]"
) -> Json:
    """Return the facts as JSON, with values uncut, and the gains of B over A."""
    kinds: dict[str, Json] = {}
    for fact in differences:
        kinds.setdefault(fact.kind, {})[fact.name] = {"a": fact.first, "b": fact.second}
    measured = {name: gain.to_json() for name, gain in gains.items()}
    return {"a": first.run, "b": second.run, **kinds, "gains": measured}


def _facts(first: Summary, second: Summary) -> Iterator[Difference]:
    for name in ("outcome", "model_version", "data_digest", "code_digest", "project_digest"):
        values = [getattr(summary, name) or None for summary in (first, second)]
        yield Difference(kind="run", name=name, first=values[0], second=values[1])
    for kind in ("settings", "metrics"):
        a: Json = getattr(first, kind)
        b: Json = getattr(second, kind)
        for name in sorted({*a, *b}):
            yield Difference(kind=kind, name=name, first=a.get(name), second=b.get(name))


def _cell(value: Any) -> str:
    if value is None:
        return MISSING
    text = number_text(value) if isinstance(value, float) else shown(value)
    if text.startswith("sha256:"):
        return text[len("sha256:") :][:DIGEST_DIGITS]
    return text if len(text) <= MAX_CELL_WIDTH else f"{text[: MAX_CELL_WIDTH - 1]}…"


def _judgement(fact: Difference, gains: "Mapping[str, Gain]") -> str:
    """Return `better` or `worse` for a metric whose direction is known, with its interval."""
    if fact.kind != "metrics" or not fact.change or fact.name not in DIRECTIONS:
        return ""
    word = "better" if (fact.change > 0) is DIRECTIONS[fact.name] else "worse"
    return gains[fact.name].words if fact.name in gains else word


def _change(fact: Difference) -> str:
    change = fact.change or 0.0
    sign = "+" if change > 0 else ""
    return f"{sign}{number_text(change, digits=4)}" if change else ""
