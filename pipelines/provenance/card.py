"""Model card of a version, in Markdown, from its lineage.

Its sections are those of "Model Cards for Model Reporting" (Mitchell et al., 2019).
"""

from collections.abc import Iterator

from components.shared.text.value_text import number_text
from pipelines.resources.names import second
from trainer import Json
from trainer.metrics.directions import name_and_direction

MAX_SLICES = 5
UNSAID = "Not stated. `intended_use` in workload.py states it."


def model_card(facts: Json) -> str:
    """Return the card of the facts of `lineage_of`."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Json) -> Iterator[str]:
    version, run, code = facts["version"], facts["run"], facts["code"]
    yield f"# {version['name']}\n"
    yield f"Made on {second(version['created'])} UTC by the run `{run['name']}`,"
    yield f"from the workload `{code['workload']}` and Trainyard's source `{code['source']}`."
    yield f"`trainyard reproduce {version['name']}` makes it again and compares the bits.\n"
    yield f"## Intended use\n\n{facts['intended_use'] or UNSAID}\n"
    yield "## Data\n"
    data = facts["data"]
    yield f"- {data['num_files']:,} raw files, fingerprint `{data['fingerprint']}`"
    for name, *known in data["files"][:MAX_SLICES]:
        yield f"- `{name}`: {', '.join(map(str, known))}"
    for split, count in data["examples"].items():
        yield f"- {split}: {count:,} examples"
    if data["split"]:
        yield f"- split {data['split']}"
    yield "\n## Metrics on the test split\n"
    yield from _metrics(facts["evaluation"])
    yield "\n## Limits\n"
    yield from _limits(facts["evaluation"]["slices"])
    yield "\n## Decisions\n"
    for entry in facts["decisions"]:
        why = f" ({entry['reasons']})" if entry["reasons"] else ""
        yield f"- {second(entry['since'])}: {entry['what']} by {entry['by'] or 'nobody known'}{why}"
    for endpoint in facts["endpoints"]:
        yield f"- gets {endpoint['traffic']} % of the requests to the endpoint `{endpoint['name']}`"


def _metrics(evaluation: Json) -> Iterator[str]:
    yield "| metric | value | 95 % interval |\n|---|---|---|"
    for name, value in evaluation["metrics"].items():
        interval = " to ".join(map(number_text, evaluation["intervals"].get(name, ())))
        yield f"| {name} | {'' if value is None else number_text(value)} | {interval} |"
    if evaluation["verdict"]:
        yield f"\nThe gate: {evaluation['verdict']}."
    yield from (f"- {reason}" for reason in evaluation["reasons"])


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
