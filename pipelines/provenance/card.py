"""Model card of a version, in Markdown, from its lineage.

Its sections are those of "Model Cards for Model Reporting" (Mitchell et al., 2019).
"""

from collections.abc import Iterator, Sequence

from components.shared.text.value_text import number_text
from pipelines.provenance.lineage import lineage_lines
from trainer import Json
from trainer.metrics.directions import name_and_direction

MAX_SLICES = 5
UNSAID = "Not stated. `intended_use` in workload.py states it."


def model_card(facts: Json) -> str:
    """Return the card of the facts of `lineage_of`."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Json) -> Iterator[str]:
    name = facts["version"]["name"]
    yield f"# {name}\n\n{facts['intended_use'] or UNSAID}\n\n## Metrics on the test split\n"
    yield from _metrics(facts["evaluation"], facts["run"].get("reasons", ()))
    yield "\n## Limits\n"
    yield from _limits(facts["evaluation"]["slices"] or [])
    yield "\n## Lineage\n"
    if facts["run"]:
        yield f"`trainyard reproduce {name}` makes it again and compares the bits.\n"
    yield "| | |\n|---|---|"
    for kind, lines in lineage_lines(facts):
        yield f"| {kind} | {'<br>'.join(line.replace('|', '&#124;') for line in lines)} |"


def _metrics(evaluation: Json, reasons: Sequence[str]) -> Iterator[str]:
    if not evaluation["metrics"]:
        yield "Unknown: no run has evaluated it, or its record is no longer there."
        return
    yield "| metric | value | 95 % interval |\n|---|---|---|"
    for name, value in evaluation["metrics"].items():
        interval = " to ".join(map(number_text, (evaluation["intervals"] or {}).get(name, ())))
        yield f"| {name} | {'' if value is None else number_text(value)} | {interval} |"
    yield from (f"- {reason}" for reason in ("", *reasons) if reason)


def _limits(slices: list[Json]) -> Iterator[str]:
    """Yield the slices on which the model is worst, by the metric of the gate."""
    known = [one for one in slices if one["candidate"] is not None]
    if not known:
        yield "No slice was measured: `gate.slices` names the columns to cut by."
        return
    _, is_lower_better = name_and_direction(known[0]["metric"])
    worst = sorted(known, key=lambda one: one["candidate"], reverse=bool(is_lower_better))[
        :MAX_SLICES
    ]
    for one in worst:
        rule = f"{one['feature']}: {one['value']}".strip(": ")
        value = number_text(one["candidate"])
        yield f"- {rule}: {one['metric']} {value} on {one['num_examples']:,} examples"
