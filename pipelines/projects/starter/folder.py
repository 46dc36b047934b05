"""The files of a new folder besides workload.py, and writing them."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.tfrecords.shards import SPLITS
from pipelines.config.editor_schemas import RUN as RUN_SCHEMA
from pipelines.config.editor_schemas import SCHEDULE as SCHEDULE_SCHEMA
from pipelines.config.editor_schemas import write_schemas
from pipelines.projects.literals import SourceText, comment, fill, literal
from pipelines.projects.scripts.record import RecordedScript
from trainer import Json
from trainer.references import valid_name

STEPS = 2_000  # about as many steps of training
EPOCHS = (3, 60)
FEWEST_EXAMPLES = 30
BATCHES = ((2_000, 32), (20_000, 128), (200_000, 256))  # rows below which a batch has this size
LARGE_BATCH = 512
FEW_ROWS = 300
RATIOS = SourceText(
    "  ratios: {train: 0.6, eval: 0.2, test: 0.2}  # few rows: larger eval and test splits\n"
)
# By the kind of a label.
THRESHOLDS = {
    "Binary": SourceText("{auc: 0.7}"),
    "Multilabel": SourceText("{auc: 0.7}"),
    "Classes": SourceText("{accuracy: 0.8}"),
    "Regression": SourceText("{rmse: {at_most: 1.0}}"),
}
SETTING = "  {}: {}\n"
QUARANTINE = "  max_quarantine: {:.2g}  # share of rows without a required value, at most\n"
MOST_DROPPED = 0.02  # of the rows; the default of max_quarantine is 0.05
SOURCE = '''\
"""{title}

Written by `trainyard new`{seen}. Comments say what was seen.
{remark}"""

{imports}from trainyard import {kinds}
{adapter}
workload = {kind}(
{arguments}{model})
'''
MODEL = "    model=model,\n{}"
SCHEMAS = ".schemas"  # hidden: no code
RUN = """\
# yaml-language-server: $schema=.schemas/run.json
# Settings of `trainyard run {folder}`. Each can also be given as --set GROUP.NAME=VALUE;
# `trainyard settings {folder} --all` lists them.
prepare:
  files: {files}
{ratios}{quarantine}\
train:
{train}# A model is deployed only if its metrics on the test split pass these thresholds.
# thresholds: {thresholds}
# Replicas of the training; without it one process on one machine.
# cluster: {{strategy: parameter_server, workers: 2, parameter_servers: 1}}
"""
SCHEDULE = """\
# yaml-language-server: $schema=../.schemas/schedule.json
# A run every night, after `trainyard schedule apply {folder}/schedules`.
workload: ..
cron: "0 3 * * *"
time_zone: UTC
paused: true   # until `trainyard schedule resume {name}`
"""
TEST = '''\
"""Run it with `python -m pytest {folder}`; `trainyard check {folder}` tries the training, too."""

{json}from pathlib import Path

from trainyard import load_workload

FOLDER = Path(__file__).parents[1]


{function}'''
REQUESTS = SourceText("""\
def test_requests_are_understood():
    workload = load_workload(str(FOLDER))
    for instance in json.loads((FOLDER / "instances.json").read_text("utf-8")):
        assert workload.parse_instance(instance)
""")
LOADED = SourceText("""\
def test_the_workload_is_loaded():
    assert load_workload(str(FOLDER)).models()
""")


@dataclass(frozen=True, kw_only=True)
class NewFolder:
    """Content of a new folder.

    Attributes:
        splits: the split of each of these files, if the files decide it.
        kind: of the label.
        said: on the data, a line each.
        has_recipe: the model has one, which says how long to train.
        script: whose model and settings the workload has.
    """

    workload: SourceText
    data: tuple[str, ...]
    num_examples: int
    kind: str
    splits: Mapping[str, str] = field(default_factory=dict)
    instances: list[Json] = field(default_factory=list)
    said: tuple[str, ...] = ()
    has_recipe: bool = False
    script: RecordedScript | None = None

    @property
    def notes(self) -> list[str]:
        """What the user should know, a line each."""
        return [*(self.script.notes if self.script else ()), *self.said]

    @property
    def train(self) -> Mapping[str, int]:
        """The settings of the training."""
        if self.script:
            return self.script.train
        size = next((size for most, size in BATCHES if self.num_examples < most), LARGE_BATCH)
        if self.has_recipe:
            return {"batch_size": size}
        epochs = min(max(round(STEPS * size / max(self.num_examples, 1)), EPOCHS[0]), EPOCHS[1])
        return {"epochs": epochs, "batch_size": size}


def check_new(folder: Path, data: Sequence[str] = ()) -> None:
    """Raise DataError if a folder has something in it, or cannot be made, or a path is no text."""
    if folder.is_dir() and any(folder.iterdir()):
        raise DataError(
            f"{folder} exists and is not empty; nothing is overwritten: give a new name"
        )
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; give the name of a new folder")
    for path in (str(folder.absolute()), *data):
        if not path.isprintable():
            raise DataError(f"{path!r} has signs that cannot be printed; give another name")


def check_number(num_examples: int, path: str | Path, noun: str) -> None:
    """Raise DataError if there are too few examples for three splits."""
    if num_examples < FEWEST_EXAMPLES:
        raise DataError(
            f"{path} has {num_examples} {noun}; at least {FEWEST_EXAMPLES} are needed for three"
            " splits"
        )


def workload_source(
    kind: str,
    *,
    title: str,
    seen: str,
    kinds: Sequence[str],
    arguments: Sequence[SourceText],
    script: RecordedScript | None = None,
) -> SourceText:
    """Return the source of a workload.

    Args:
        kind: its class.
        title: of its docstring.
        seen: what it is written from, in words.
        kinds: further classes that the arguments use.
        arguments: a line each.
        script: whose model it has.
    """
    return fill(
        SOURCE,
        title=title,
        seen=seen,
        remark=script and script.remark,
        imports=script and script.imports,
        kinds=", ".join(sorted({kind, *kinds})),
        adapter=script and script.adapter,
        kind=kind,
        arguments=arguments,
        model=script and fill(MODEL, script.arguments),
    )


def write_folder(folder: Path, start: NewFolder) -> list[str]:
    """Write the files of a new folder; return their names."""
    check_new(folder, start.data)
    name = valid_name(folder.resolve().name)
    schedule = valid_name(f"{name}-nightly")
    shown = shlex.quote(os.path.relpath(folder))
    files: dict[str, str | bytes] = {
        "workload.py": start.workload,
        "run.yaml": _run_file(folder, shown, start),
        f"schedules/{schedule}.yaml": fill(SCHEDULE, folder=comment(shown), name=schedule),
        **(start.script.files if start.script else {}),
    }
    parts = (SourceText("import json\n"), REQUESTS) if start.instances else (None, LOADED)
    test = fill(TEST, folder=shown, json=parts[0], function=parts[1])
    # pytest wants another name in each folder that it runs at once.
    files[f"tests/test_{name.replace('-', '_')}.py"] = test
    if start.instances:
        files["instances.json"] = _instances(start.instances)
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
    write_schemas(folder / SCHEMAS, RUN_SCHEMA, SCHEDULE_SCHEMA)
    return sorted(files)


def _instances(instances: list[Json]) -> str:
    lines = ",\n  ".join(json.dumps(instance, ensure_ascii=False) for instance in instances)
    return f"[\n  {lines}\n]\n"


def _run_file(folder: Path, shown: str, start: NewFolder) -> SourceText:
    num_dropped = start.script.num_dropped if start.script else 0
    share = num_dropped / max(start.num_examples, 1)
    return fill(
        RUN,
        folder=comment(shown),
        files=literal(_files(folder, start)),
        ratios=RATIOS if start.num_examples < FEW_ROWS else None,
        quarantine=fill(QUARANTINE, min(2 * share, 1.0)) if share > MOST_DROPPED else None,
        train=[fill(SETTING, name, value) for name, value in start.train.items()],
        thresholds=THRESHOLDS[start.kind],
    )


def _files(folder: Path, start: NewFolder) -> list[str] | dict[str, list[str]]:
    """Return the files as run.yaml has them, by their splits if files decide these."""
    paths = {path: _from(folder, path) for path in start.data}
    if not start.splits:
        return [*paths.values()]
    return {
        split: [paths[path] for path in paths if start.splits.get(path, "train") == split]
        for split in SPLITS
        if split in start.splits.values()
    }


def _from(folder: Path, data: str) -> str:
    """Return a path from the folder if it is near, as both may be moved; else an absolute one."""
    target, base = Path(os.path.abspath(data)), Path(os.path.abspath(folder))
    relative = os.path.relpath(target, base)
    return relative if not relative.startswith("../../") else str(target)
