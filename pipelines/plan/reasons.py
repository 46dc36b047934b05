"""Reasons why a task will run although an earlier run has executed it: what has changed since."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from components.model_version.companions import INPUT_FILE, read_companion_object
from components.prepare_examples.fingerprint import read_input
from components.prepare_examples.settings.options import PrepareOptions
from components.run_result.settings import SOURCE_DIGEST, WORKLOAD, settings_in
from components.shared.text.value_text import first_of
from pipelines.plan.earlier_tasks import EarlierTask
from pipelines.plan.forecast import TaskForecast, known_of
from pipelines.projects.project import file_digests
from pipelines.runs.output.tables import shown
from trainer import Json
from trainer.errors import InputError
from trainer.references import SNAPSHOT, code_digest

MAX_NAMED = 3
FINGERPRINT, COMPARISON, IMAGE = "input_fingerprint", "comparison", "image"
PLAN = ("worker_pool_specs", "base_output_directory")  # outputs of plan-training
EXAMPLES = "examples"
RAW_DATA = "the raw data"


def changes(task: TaskForecast, before: EarlierTask) -> list[str]:
    """Return what has changed since an earlier run's task: code, settings and data, in words."""
    now = known_of(task.inputs)
    earlier = {name: value for name, value in before.inputs.parameters.items() if name in now}
    workloads = [str(values.get(WORKLOAD, "")) for values in (earlier, now)]
    words = [*_code(task, before, workloads), *_project(*workloads)]
    if earlier.get(FINGERPRINT) != now.get(FINGERPRINT):
        words.append(_data(now, before))
    if earlier.get(COMPARISON) != now.get(COMPARISON):
        words.append("another version to compare with")
    if any(earlier.get(name) != now.get(name) for name in PLAN):
        words.append("another plan of the training")
    words += setting_changes(task, before)
    if before.inputs.artifacts != task.inputs.artifacts and not words:
        words.append("other inputs")
    return words


def setting_changes(task: TaskForecast, before: EarlierTask) -> list[str]:
    """Return the settings among the known inputs that have changed since an earlier run's task."""
    now = known_of(task.inputs)
    earlier = _settings(
        {name: value for name, value in before.inputs.parameters.items() if name in now}
    )
    return [
        f"{name} {_shown(earlier.get(name))} → {_shown(setting)}"
        for name, setting in {**dict.fromkeys(earlier), **_settings(now)}.items()
        if earlier.get(name) != setting
    ]


def _settings(parameters: Json) -> dict[str, Any]:
    """Return parameters as settings, without those that have words of their own."""
    plain = {
        name: value
        for name, value in parameters.items()
        if name not in (FINGERPRINT, COMPARISON, IMAGE, *PLAN)
    }
    return settings_in(plain)


def _code(task: TaskForecast, before: EarlierTask, workloads: list[str]) -> Iterator[str]:
    """Yield what has changed besides the workload, whose snapshot ends the tag of its image."""
    images = [
        str(container.get("image", "")).removesuffix(f"-{Path(workload).name}")
        for container, workload in zip((before.container, task.container), workloads, strict=True)
    ]
    if images[0] != images[1]:
        is_source = all(map(SOURCE_DIGEST.search, images))
        yield "Trainyard's source" if is_source else f"image {images[0]} → {images[1]}"
    elif (before.component, before.container) != (
        task.component,
        {**task.container, "image": before.container.get("image", "")},
    ):
        yield "the step's code"


def _project(before: str, now: str) -> Iterator[str]:
    """Yield the files of a user's workload that have changed, by their snapshots."""
    if code_digest(before) == code_digest(now):
        return
    folders = [Path(before), Path(now)]
    if not all(folder.is_dir() and SNAPSHOT.fullmatch(folder.name) for folder in folders):
        yield "the workload's code"
        return
    digests = [file_digests(folder) for folder in folders]
    yield _named(*digests) or "the workload's code"


def _data(now: Json, before: EarlierTask) -> str:
    """Return which raw files are new, changed or gone since an earlier task prepared them."""
    [folder] = before.outputs.artifacts.get(EXAMPLES, ("",))
    options = PrepareOptions.from_json(now["prepare"], trust_files=now["trust_files"])
    with contextlib.suppress(InputError, OSError):
        known = read_companion_object(folder, INPUT_FILE)
        data = read_input(now[WORKLOAD], data_dir=now["data_dir"], options=options)
        if known and known.get("files") and data.listed:
            return _named(_by_name(known["files"]), _by_name(data.listed)) or RAW_DATA
    return RAW_DATA


def _by_name(facts: Iterable[Any]) -> dict[str, Any]:
    return {fact if isinstance(fact, str) else str(fact[0]): fact for fact in facts}


def _named(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the files that differ: "a.csv changed, b.csv is new"; "" if none does."""
    words = [
        f"{Path(name).name} {_change(name, before, now)}"
        for name in dict.fromkeys([*now, *before])
        if before.get(name) != now.get(name)
    ]
    return first_of(words, MAX_NAMED)


def _change(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if name not in before:
        return "is new"
    return "changed" if name in now else "is gone"


def _shown(value: Any) -> str:
    return "none" if value is None else shown(value) or "none"
