"""Comparison of two trainings, stage after stage, and what explains their first difference."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from components.model_version.champion import FINGERPRINT
from components.run_result.settings import parameters_of
from components.shared.text.json_object import as_object
from components.shared.text.value_text import cut, first_of
from pipelines.provenance.record import Record
from trainer import Json
from trainer.cluster import roles

MOST = 3  # differences of a stage that are shown
VARIABLES = "variables/"
RAW_FILES = "raw files"
DIGEST = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of a training, whether both trainings agree in it, and what differs."""

    name: str
    is_same: bool
    words: str


def compare(before: Json, now: Json) -> list[Stage]:
    """Return the stages of two trainings, as `data_stages` or `model_stages` has them."""
    stages = []
    for name, facts in now.items():
        found = list(differences(before[name], facts))
        words = first_of(found, MOST) or "the same"
        stages.append(Stage(name=name, is_same=not found, words=words))
    return stages


def data_stages(record: Record) -> Json:
    """Return what identifies raw files, examples and statistics, by stage.

    The fingerprint covers files that are too many to be listed, the schema and the baseline.
    """
    splits = record.manifest.get("splits", {})
    counts = {f"examples of {name}": split["num_examples"] for name, split in splits.items()}
    shards = {one["file"]: one["sha256"] for split in splits.values() for one in split["shards"]}
    return {
        RAW_FILES: {**record.files, "fingerprint": record.data.get("fingerprint")},
        "examples": counts | shards,
        "statistics": record.statistics,
    }


def model_stages(record: Record) -> Json:
    """Return what identifies weights, exported model and metrics, by stage."""
    digests = record.digests
    weights = {name: digests[name] for name in digests if name.startswith(VARIABLES)}
    others = {name: digests[name] for name in digests if name not in {FINGERPRINT, *weights}}
    metrics = record.evaluation.get("metrics", {})
    return {"weights": weights, "exported model": others, "metrics": metrics}


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yield where two JSON values differ, with both values; 1 is not 1.0, NaN is NaN.

    Long lists are compared by their places, from 0.
    """
    if isinstance(before, list) and isinstance(now, list) and len(now) > MOST:
        before, now = dict(enumerate(before)), dict(enumerate(now))
    if isinstance(before, dict) and isinstance(now, dict):
        for key in before | now:
            yield from differences(before.get(key), now.get(key), f"{name} {key}".strip())
    elif (first := _shown(before)) != (second := _shown(now)):
        yield f"{name}: {cut(first)} → {cut(second)}"


def _shown(value: Any) -> str:
    """Return a value as JSON, with the first digits of digests."""
    return DIGEST.sub(r"\1", json.dumps(value)) if value is not None else "nothing"


def is_asynchronous(record: Record) -> bool:
    """Return whether the order in which workers finish has an influence on the weights."""
    cluster = as_object(parameters_of(record.job).get("cluster", "{}")) or {}
    return roles.is_asynchronous(str(cluster.get("strategy", "")))


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
    """Return what is known to differ between two trainings besides the stages."""
    reasons = []
    if not is_source:
        reasons.append(f"the source: {before.source} made it, and is no commit of this clone")
    if now.machine and before.machine:
        known = before.machine["packages"].keys() & now.machine["packages"]
        then, here = (  # a process may have imported more than it needs
            {**one, "packages": {name: one["packages"][name] for name in sorted(known)}}
            for one in (before.machine, now.machine)
        )
        reasons += islice(differences(then, here), 2 * MOST)
    elif now.machine:
        reasons.append("the machine of that training was not recorded")
    if is_asynchronous(before):
        reasons.append(
            "parameter_server: the weights depend on the order in which workers finish, by nature"
        )
    return reasons
