"""Selection of runs by settings, metrics and other facts: conditions, order and columns."""

import dataclasses
import operator
import re
from collections.abc import Sequence
from typing import Any

from components.evaluate.thresholds import format_metric
from components.shared.run_summary.summary import Summary
from pipelines.resources.table import Table
from trainer.errors import ConfigError, did_you_mean

OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
CONDITION = re.compile(rf"(?P<name>[^<>=!]+)(?P<operator>{'|'.join(OPERATORS)})(?P<value>.*)")
DESCENDING = ":desc"


def select(runs: Sequence[Summary], *, where: Sequence[str], sort: str) -> list[Summary]:
    """Return the runs for which all conditions are true, in the order of a fact if one is named.

    A run without the fact of a condition is left out; without the fact to sort by it comes last.

    Raises:
        ConfigError: a condition has another form, or no run has such a fact.
    """
    for condition in where:
        match = CONDITION.fullmatch(condition)
        if not match:
            raise ConfigError(
                f"--where {condition!r}: write NAME, one of {', '.join(OPERATORS)}, and a value, "
                "as accuracy>=0.98"
            )
        facts = _facts(runs, match["name"])
        holds, value = OPERATORS[match["operator"]], match["value"]
        runs = [run for run in runs if run.run in facts and _holds(holds, facts[run.run], value)]
    if sort and runs:
        facts = _facts(runs, sort.removesuffix(DESCENDING))
        known = [run for run in runs if run.run in facts]
        known.sort(key=lambda run: _key(facts[run.run]), reverse=sort.endswith(DESCENDING))
        runs = [*known, *(run for run in runs if run.run not in facts)]
    return list(runs)


def chosen_table(runs: Sequence[Summary], columns: Sequence[str]) -> Table:
    """Return a row for each run with these facts."""
    facts = [_facts(runs, column) for column in columns] if runs else []
    rows = [(run.run, *(_text(of_column.get(run.run)) for of_column in facts)) for run in runs]
    return Table(("RUN", *columns), rows)


def _facts(runs: Sequence[Summary], name: str) -> dict[str, Any]:
    """Return the values of a setting, a metric or another fact by the names of the runs."""
    facts = {run.run: _facts_of(run) for run in runs}
    if runs and not any(name in of_run for of_run in facts.values()):
        names = list(dict.fromkeys(key for of_run in facts.values() for key in of_run))
        raise ConfigError(
            f"no run has {name!r};{did_you_mean(name, names)} there are {', '.join(names)}"
        )
    return {run: of_run[name] for run, of_run in facts.items() if name in of_run}


def _facts_of(run: Summary) -> dict[str, Any]:
    own = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    plain = {name: value for name, value in own.items() if isinstance(value, str | float | int)}
    return {**plain, **run.settings, **run.metrics}


def _holds(holds: Any, value: Any, wanted: str) -> bool:
    left, right = _key(value), _key(wanted)
    if left[0] != right[0]:  # a text is not comparable with a number
        return holds is operator.ne
    return bool(holds(left, right))


def _key(value: Any) -> tuple[bool, Any]:
    """Return a value as comparable with others: numbers, also those in texts, before texts."""
    try:
        return False, float(value)
    except (TypeError, ValueError):
        return True, str(value).lower() if isinstance(value, bool) else str(value)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return format_metric(value)
    return "-" if value in (None, "") else str(value)
