"""Comparison of two trainings, stage after stage, and what explains their first difference."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from components.model_version.champion import FINGERPRINT
from components.run_result.settings import parameters_of
from components.shared.text.json_object import as_object
from components.shared.text.value_text import cut, first_of
from pipelines.provenance.record import Record
from trainer import Json

MAX_NAMES = 4
VARIABLES = "variables/"
ASYNCHRONOUS = "parameter_server"
RAW_FILES = "raw files"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of a training, whether both trainings agree in it, and what was compared."""

    name: str
    is_same: bool
    words: str


def data_stages(before: Record, now: Record) -> Iterator[Stage]:
    """Yield the raw files, the examples and their statistics, as far as they were recorded."""
    yield _raw_files(before, now)
    if before.manifest:
        yield _examples(before.manifest, now.manifest)
    differing = first_difference(before.statistics, now.statistics)
    words = f"of {len(now.statistics)} columns of the train split"
    yield Stage(name="statistics", is_same=not differing, words=differing or words)


def model_stages(before: Record, now: Record) -> Iterator[Stage]:
    """Yield the weights, the rest of the exported model, and the metrics."""
    differing = [
        name
        for name in {**before.digests, **now.digests}
        if name != FINGERPRINT and before.digests.get(name) != now.digests.get(name)
    ]
    weights = [name for name in differing if name.startswith(VARIABLES)]
    others = [name for name in differing if name not in weights]
    yield Stage(name="weights", is_same=not weights, words=first_of(weights, MAX_NAMES))
    yield Stage(name="exported model", is_same=not others, words=first_of(others, MAX_NAMES))
    first, second = (record.evaluation.get("metrics", {}) for record in (before, now))
    difference = first_difference(first, second)
    words = ", ".join(f"{name} {value}" for name, value in second.items())
    yield Stage(name="metrics", is_same=not difference, words=difference or words)


def _raw_files(before: Record, now: Record) -> Stage:
    is_same = before.data.get("fingerprint") == now.data.get("fingerprint")
    if is_same:
        count = now.data.get("num_files", 0)
        return Stage(name=RAW_FILES, is_same=True, words=f"{count:,} files")
    problems = []
    for name in sorted({**before.files, **now.files}):
        first, second = before.files.get(name), now.files.get(name)
        if first != second:
            problems.append(f"{name}: {_change(first, second)}")
    if not problems:
        problems = ["another fingerprint: a file that is not listed, the schema or the baseline"]
    totals = [_num_examples(record.manifest) for record in (before, now)]
    if all(totals):
        problems.append(f"{totals[0]:,} examples before, {totals[1]:,} now")
    return Stage(name=RAW_FILES, is_same=False, words="; ".join(problems[-MAX_NAMES - 1 :]))


def _change(first: list[Any] | None, second: list[Any] | None) -> str:
    """Return how a raw file has changed, by its facts: size and digest, or a digest alone."""
    if first is None or second is None:
        return "added" if first is None else "no longer there"
    sizes = first[0], second[0]
    if not all(isinstance(size, int) for size in sizes):
        return "other content"
    if sizes[0] == sizes[1]:
        return f"other content of the same {sizes[0]:,} bytes"
    return f"{sizes[0]:,} bytes before, {sizes[1]:,} now"


def _examples(before: Json, now: Json) -> Stage:
    first, second = _shards(before), _shards(now)
    differing = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    words = f"{_num_examples(now):,} in {len(second)} shards"
    if differing:
        words = f"{first_of(differing, MAX_NAMES)}: {len(differing)} of {len(second)} shards differ"
        if (count := _num_examples(before)) != _num_examples(now):
            words += f"; {count:,} examples before, {_num_examples(now):,} now"
    return Stage(name="examples", is_same=not differing, words=words)


def _shards(manifest: Json) -> dict[str, str]:
    splits = manifest.get("splits", {}).values()
    return {shard["file"]: shard["sha256"] for split in splits for shard in split["shards"]}


def _num_examples(manifest: Json) -> int:
    return sum(split["num_examples"] for split in manifest.get("splits", {}).values())


def first_difference(before: Any, now: Any, name: str = "") -> str:
    """Return where two JSON values differ first, with both values; "" if they are equal."""
    if isinstance(before, dict) and isinstance(now, dict):
        pairs = [(key, before.get(key), now.get(key)) for key in {**before, **now}]
        below = (first_difference(*pair[1:], f"{name}.{pair[0]}".strip(".")) for pair in pairs)
        return next(filter(None, below), "")
    return "" if _equal(before, now) else f"{name}: {_shown(before)} before, {_shown(now)} now"


def _equal(before: Any, now: Any) -> bool:
    return json.dumps(before) == json.dumps(now)  # NaN equals NaN, and 1 is not 1.0


def _shown(value: Any) -> str:
    return "nothing" if value is None else cut(json.dumps(value))


def is_asynchronous(record: Record) -> bool:
    """Return whether the order in which workers finish has an influence on the weights."""
    cluster = as_object(parameters_of(record.job).get("cluster", "{}")) or {}
    return cluster.get("strategy") == ASYNCHRONOUS


def agree(before: Record, now: Record) -> bool:
    """Return whether the two intervals of each metric overlap.

    Two asynchronous trainings differ by chance as much as the test split does: each metric in the
    other's interval would refuse every sixth pair of mnist.
    """
    first, second = (record.evaluation.get("intervals", {}) for record in (before, now))
    return bool(first) and all(
        name in second and low <= second[name][1] and second[name][0] <= high
        for name, (low, high) in first.items()
    )


def explanations(before: Record, now: Record, *, is_source: bool) -> list[str]:
    """Return what is known to differ between two trainings besides the stages, a sentence each."""
    reasons = []
    if not is_source:
        reasons.append(f"the source: src-{before.source} made it, and is no commit of this clone")
    if now.machine and before.machine:
        reasons += _machine_changes(before.machine, now.machine)
    elif now.machine:
        reasons.append("the machine of that training was not recorded")
    if is_asynchronous(before):
        reasons.append(
            "parameter_server: the weights depend on the order in which workers finish, by nature"
        )
    return reasons


def _machine_changes(before: Json, now: Json) -> Iterator[str]:
    """Yield the facts that differ; of packages, of those that both trainings had imported."""
    pairs = {name: (before[name], now[name]) for name in before if name in now}
    old, new = map(set, pairs.pop("instructions", ((), ())))
    pairs["instructions"] = sorted(old - new) or None, sorted(new - old) or None
    for kind in ("packages", "variables"):
        first, second = pairs.pop(kind, ({}, {}))
        names = first.keys() & second.keys() if kind == "packages" else {**first, **second}
        for name in sorted(names):
            pairs[f"{kind}: {name}"] = first.get(name), second.get(name)
    for name, (first, second) in pairs.items():
        if difference := first_difference(first, second, name):
            yield difference
