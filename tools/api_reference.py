"""python -m tools.api_reference writes docs/api.md and the schemas of configs/schemas."""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import trainyard
from components.model_version.history import HistoryEntry
from components.run_result.summary import Summary
from pipelines.command.doctor import Check
from pipelines.config.editor_schemas import CLUSTER, RUN, SCHEDULE, write_schemas
from pipelines.projects.trial.findings import Finding

SCHEMAS = Path(__file__).parents[1] / "configs" / "schemas"
PAGE = Path(__file__).parents[1] / "docs" / "api.md"
SECTIONS = {
    "Data": ("Table", "ImageFolder", "Records"),
    "Columns and features": (
        "Number",
        "Category",
        "Text",
        "Timestamp",
        "TimePart",
        "Image",
        "Values",
    ),
    "Labels": ("Regression", "Binary", "Classes", "Multilabel"),
    "Splits": ("Split",),
    "Files to fetch": ("Source", "SourceFile", "Download"),
    "Models": ("Recipe", "combine", "flip", "shift"),
    "Runs": ("check", "run", "submit", "fit", "Run", "load_workload"),
}
EXAMPLES = {
    "Table": 'Table([Number("age"), Category("plan")], label=Binary("left"), key="id")',
    "ImageFolder": "ImageFolder((64, 64), channels=3)",
    "Records": 'Records({"x": Values("float32", [4])}, label=Classes("y"), model=lambda x: x)',
    "Number": 'Number("price", low=0, unit="CHF", is_logarithmic=True, buckets=10, signs=("CHF",))',
    "Category": 'Category("tags", separator="|", max_values=500, missing=("n/a",))',
    "Text": 'Text("review", max_tokens=20_000, max_length=200)',
    "Timestamp": 'Timestamp("ordered", format="%d.%m.%Y %H:%M", time_zone="Europe/Zurich")',
    "TimePart": 'TimePart("order_hour", of="ordered", part="hour", high=23)',
    "Image": 'Image("photo", size=(64, 64), fit="crop")',
    "Values": 'Values("int64", [3], default_value=0)',
    "Regression": 'Regression("price", low=0, unit="CHF")',
    "Binary": 'Binary("churned", positive="yes", names=("stays", "leaves"))',
    "Classes": 'Classes("grape", values=(0, 1), names=("Barolo", "Barbera"))',
    "Multilabel": 'Multilabel("genres", separator="|")',
    "Split": 'Split("signed_up", eval="30d", test="30d")',
    "Source": 'Source(title="Wine", files=[Download("https://example.org/wine.csv", sha256="…")])',
    "SourceFile": 'SourceFile("wine.csv", sha256="…")',
    "Download": 'Download("https://example.org/wine.csv", sha256="…")',
    "Recipe": 'Recipe(learning_rate=3e-3, optimizer="sgd", momentum=0.9, min_steps=400)',
}
# Not for declarations: what a run learns and sets, and what only our own workloads have.
INTERNAL = {
    *("learnt", "settings", "is_used", "decimal", "thousands"),
    *("routes", "archive", "bigquery", "gzip_sha256"),
}
INTERNAL_OF = {trainyard.Workload: {"name", "reference"}, trainyard.Source: {"format"}}
# What commands print with --json: a class whose fields are the keys, or the keys.
OUTPUTS: dict[str, Any] = {
    "check[]": Finding,
    "cluster explain": ("format", "cluster", "notes"),
    "doctor[]": Check,
    "endpoints list[]": ("endpoint", "id", "serves", "status"),
    "jobs evaluate": ("METRIC",),
    "jobs submit": ("job", "name", "output"),
    "lineage FILE[]": ("version", "run", "created", "file"),
    "lineage MODEL@VERSION": (
        *("version", "run", "source", "intended_use", "data", "machine"),
        *("evaluation", "decisions", "endpoints"),
    ),
    "models history[]": HistoryEntry,
    "plan": ("run", "location", "tasks", "seconds", "price", "quota"),
    "predict": (
        *("model", "workload", "files", "unused_columns", "unknown_values", "rows", "predictions"),
        *("errors", "seconds", "rows_per_second", "shards", "output"),
    ),
    "prune[]": ("run", "state", "bytes", "kept"),
    "reproduce": ("version", "run", "source", "result", "stages", "reasons"),
    "run, submit --wait, runs list[], runs show --summary": Summary,
    "runs diff": ("a", "b", "run", "settings", "metrics", "gains"),
    "schedule apply[]": ("schedule", "action", "detail", "next_runs"),
    "schedule list[]": ("displayName", "state", "cron", "nextRunTime", "settings", "lastRun"),
    "step": ("run", "before", "now"),
    "teardown[]": ("run", "left"),
    "tune": ("name", "id", "state", "error", "metric", "goal", "folds", "best", "trials"),
}
JSON_HEAD = """\
## JSON

Keys of `--json`, with [] of each of a list; `jobs`, `models`, `runs show` print Vertex AI's
resources.
"""
HEAD = """\
# API

What `import trainyard` exports, with every argument; those without a default are required. Made
from the docstrings by `python -m tools.api_reference`. [Your own](your-own.md) shows them in use,
[From Python](python.md) the calls, and `trainyard settings WORKLOAD` lists the settings of runs.
"""
_STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_CALLABLE = re.compile(r"Callable\[(?:[^][]|\[(?:[^][]|\[[^][]*\])*\])*\]")
_SECTION = re.compile(r"^(?:Attributes|Args|Returns|Raises|Example):$", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def render() -> str:
    """Return the page."""
    parts, shown = [HEAD], dict[str, str]()
    for title, names in SECTIONS.items():
        parts += [f"## {title}\n", *(_entry(name, shown) for name in names)]
    lines = [f"- {command}: `{','.join(_keys(keys))}`" for command, keys in OUTPUTS.items()]
    parts += [JSON_HEAD, "\n".join([*lines, ""])]
    return "\n".join(parts)


def meanings(thing: Any) -> dict[str, str]:
    """Return the text of each argument, from the docstrings of a class and of its bases."""
    found: dict[str, str] = {}
    for one in reversed(getattr(thing, "__mro__", [thing])):
        for names, text in _ENTRY.findall(inspect.getdoc(one) or ""):
            found |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return found


def arguments(thing: Any) -> list[inspect.Parameter]:
    """Return the arguments that a user gives."""
    internal = INTERNAL.union(
        *(names for base, names in INTERNAL_OF.items() if base in getattr(thing, "__mro__", ()))
    )
    parameters = inspect.signature(thing).parameters
    return [one for name, one in parameters.items() if name not in internal]


def _keys(keys: Any) -> tuple[str, ...]:
    return keys if isinstance(keys, tuple) else tuple(one.name for one in dataclasses.fields(keys))


def _entry(name: str, shown: dict[str, str]) -> str:
    """Return the section of a name; an argument that is in `shown` is named only."""
    thing = getattr(trainyard, name)
    text = _SECTION.split(inspect.getdoc(thing) or "")[0].strip()
    lines = [f"### {name}\n", f"{text}\n"]
    if name in EXAMPLES:
        lines.append(f"```python\n{EXAMPLES[name]}\n```\n")
    if name == "Run":
        return "\n".join([*lines, *_members(thing), ""])
    repeated: dict[str, list[str]] = {}
    for line, names in _lines(thing).items():
        if line in shown:
            repeated.setdefault(shown[line], []).extend(names)
        else:
            lines.append(line)
            shown[line] = name
    for first, names in repeated.items():
        listed = ", ".join(f"`{one}`" for one in names)
        lines.append(f"- {listed}: as of [{first}](#{first.lower()}).")
    return "\n".join([*lines, ""])


def _lines(thing: Any) -> dict[str, list[str]]:
    """Return a line for each argument, or for several that mean the same, with their names."""
    known = meanings(thing)
    alike: dict[tuple[str, str], list[str]] = {}
    for one in arguments(thing):
        kind = f"{_type(one)}{_default(thing, one)}"
        alike.setdefault((kind, known.get(one.name, "")), []).append(
            f"{_STARS.get(one.kind, '')}{one.name}"
        )
    return {
        f"- `{', '.join(names)}{kind}`: {meaning}": names
        for (kind, meaning), names in alike.items()
    }


def _members(thing: Any) -> list[str]:
    members = {name: one for name, one in vars(thing).items() if not name.startswith("_")}
    rows = ["| member | meaning |", "|---|---|"]
    for name, one in members.items():
        if text := inspect.getdoc(one):
            rows.append(f"| `{name}` | {text.partition(chr(10))[0]} |")
    return rows


def _type(one: inspect.Parameter) -> str:
    if one.annotation in (inspect.Parameter.empty, type(one.default)):
        return ""
    text = re.sub(r"\b(?:[a-z_]+\.)+", "", inspect.formatannotation(one.annotation))
    return ": " + _CALLABLE.sub("Callable", text).replace("NoneType", "None")


def _default(thing: Any, one: inspect.Parameter) -> str:
    if one.default is inspect.Parameter.empty:
        return ""
    if dataclasses.is_dataclass(thing):
        factories = {f.name: f.default_factory for f in dataclasses.fields(thing)}
        if (factory := factories.get(one.name)) not in (None, dataclasses.MISSING):
            return f" = {factory()!r}"
    if callable(one.default):
        return f" = {one.default.__name__}"
    return f" = {one.default!r}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    write_schemas(SCHEMAS, RUN, CLUSTER, SCHEDULE)
