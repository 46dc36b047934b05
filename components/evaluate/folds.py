"""Cross-validation: the rows of a small dataset, dealt into folds that judge its recipe in turn."""

import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.errors import StepError
from components.evaluate.gate.options import GateOptions
from components.evaluate.held_out import Predict, predict_table, with_columns
from components.evaluate.step import Case
from components.model_version.companions import STATISTICS_FILE
from components.model_version.saved_model import DESCRIPTION
from components.prepare_examples.existing_records.read import read_records
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.tfrecords.records import frame_row, record_file
from components.prepare_examples.tfrecords.shards import MOST_KEYS, SPLITS, shard_file
from components.shared.text.json_object import read_object
from trainer import Json
from trainer.errors import ConfigError
from trainer.runtime.cores import SHARE_VARIABLE, num_cores
from trainer.runtime.processes import end_with

logger = logging.getLogger(__name__)

FEW_ROWS, DEFAULT_FOLDS = 500, 5
SHARE_OF_TIME = 0.8  # of gate.timeout_seconds; the rest is for the evaluation itself
OFF = "gate.folds=0 judges by the test split"
MODEL = "model"  # the name of the trained one, beside those of simple models
LOG_FILE, PREDICTIONS_FILE, NUM_LINES = "log.txt", "predictions.npz", 20
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class OutOfFold:
    """All rows of a dataset, and predictions of each by models that were not trained on it.

    The predictions are as HeldOut has them.
    """

    num_folds: int
    records: Sequence[bytes]
    predictions: dict[str, Array]


def num_folds(manifest: Json, options: GateOptions) -> int:
    """Return the number of folds that judge: the setting, or 5 of few rows; 0 for none.

    Raises:
        ConfigError: the setting asks for folds, but the rows cannot be dealt.
    """
    count = DEFAULT_FOLDS if options.folds is None else options.folds
    if count <= 1:
        return 0
    num_rows, why_not, keys = _num_rows(manifest), "", _keys(manifest)
    if declared := manifest.get("split"):
        why_not = f"the split is by {declared['by']}, which random folds would undo"
    elif num_rows > MOST_KEYS:
        why_not = f"{num_rows:,} rows are more than {MOST_KEYS:,}; the test split is large enough"
    elif len(keys) != num_rows:
        why_not = "only rows of tables and records that a hash has split can be dealt"
    elif (num_groups := len(np.unique(keys))) < 2 * count:
        why_not = f"{num_groups} rows, or groups of rows, are fewer than {2 * count}"
    if options.folds is None:
        return count if num_rows < FEW_ROWS and not why_not else 0
    if why_not:
        raise ConfigError(f"gate.folds is {count}, but {why_not}; {OFF}")
    return count


def folds_note(manifest: Json, count: int) -> str:
    """Return in words that folds judge."""
    few = f"; by default of fewer than {FEW_ROWS}: {OFF}" * (_num_rows(manifest) < FEW_ROWS)
    return f"{count} folds of all {_num_rows(manifest):,} rows judge the model{few}"


def _num_rows(manifest: Json) -> int:
    return sum(int(split["num_examples"]) for split in manifest["splits"].values())


def _shards(manifest: Json) -> list[Json]:
    splits = manifest["splits"]
    return [shard for name in SPLITS for shard in splits.get(name, {}).get("shards", ())]


def _keys(manifest: Json) -> NDArray[np.uint64]:
    """Return the hashes of rows that a manifest has, in the order of its splits and files."""
    text = "".join(shard.get("keys", "") for shard in _shards(manifest))
    return np.frombuffer(bytes.fromhex(text), np.uint64)


def deal(manifest: Json, count: int) -> list[dict[str, Array]]:
    """Return the rows of each split of each fold, by name; each row is in one test split.

    Rows of the same key stay together. They are dealt into two parts a fold, the largest groups
    first, so that all parts are about as large. A fold tests two parts. Of the others as many stop
    the training as the eval split is large, at least one.
    """
    keys, num_parts = _keys(manifest), 2 * count
    _, groups, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    parts, filled = np.empty(len(sizes), np.int64), np.zeros(num_parts, np.int64)
    for group in np.argsort(-sizes, kind="stable"):
        parts[group] = filled.argmin()
        filled[parts[group]] += sizes[group]
    share = manifest["splits"]["eval"]["num_examples"] / len(keys)
    last = 2 + min(max(round(share * num_parts), 1), num_parts - 3)
    ends = (("test", 0, 2), ("eval", 2, last), ("train", last, num_parts))
    folds: list[dict[str, Array]] = []
    for first in range(0, num_parts, 2):
        at = (parts[groups] - first) % num_parts
        folds.append({name: np.flatnonzero((at >= low) & (at < high)) for name, low, high in ends})
    return folds


def cross_validate(case: Case) -> OutOfFold | None:
    """Train on each fold, and predict the rows left out; None if the test split judges.

    The processes are forked, so TensorFlow must not have run in this one.

    Raises:
        ConfigError: see `num_folds`.
        StepError: a training fails, or has not ended in time.
        DataError: a file of the dataset is damaged.
    """
    if not case.flags:
        return None
    manifest = read_object(Path(case.examples_dir, MANIFEST), "splits", "workload")
    options = GateOptions.from_json(case.gate)
    count = num_folds(manifest, options)
    if not count:
        return None
    logger.info("%s", folds_note(manifest, count))
    files = [Path(case.examples_dir, shard["file"]) for shard in _shards(manifest)]
    records = [record for path in files for record in read_records(path)]
    dealt, label = deal(manifest, count), _label_statistics(case)
    with tempfile.TemporaryDirectory(prefix="folds-") as root:
        folds = [Path(root, f"fold {number} of {count}") for number in range(1, count + 1)]
        for folder, rows in zip(folds, dealt, strict=True):
            write_fold(folder, records, rows, manifest["workload"], label)
        train_all(folds, case, timeout_seconds=SHARE_OF_TIME * options.timeout_seconds)
        found = [dict(np.load(folder / PREDICTIONS_FILE)) for folder in folds]
    order = np.argsort(np.concatenate([rows["test"] for rows in dealt]))
    models = {name: np.concatenate([fold[name] for fold in found])[order] for name in found[0]}
    return OutOfFold(num_folds=count, records=records, predictions=models)


def _label_statistics(case: Case) -> Json:
    """Return the counts of the label in the run's train split, by the label's column."""
    label = read_object(Path(case.model_dir, DESCRIPTION)).get("declaration", {}).get("label", {})
    statistics = read_object(Path(case.examples_dir, STATISTICS_FILE), "splits.train.features")
    features = statistics["splits"]["train"]["features"]
    return {name: found for name, found in features.items() if name == label.get("column")}


def write_fold(
    folder: Path, records: Sequence[bytes], rows: Mapping[str, Array], workload: str, label: Json
) -> None:
    """Write a fold as a dataset with statistics of the label only.

    So weights and names of classes are those of the run; all else is learnt from the fold's rows.
    """
    folder.mkdir()
    splits: Json = {}
    for name, numbers in rows.items():
        path = folder / shard_file(name, 0, 1, "")
        with record_file(path, compression="") as file:
            file.write(b"".join(frame_row(records[number]) for number in numbers))
        shard = {"file": path.name, "num_examples": len(numbers), **file.digests()}
        splits[name] = {"num_examples": len(numbers), "shards": [shard]}
    content = {"workload": workload, "compression": "", "splits": splits}
    (folder / MANIFEST).write_text(json.dumps(content), encoding="utf-8")
    train = {"num_examples": len(rows["train"]), "features": label}
    (folder / STATISTICS_FILE).write_text(json.dumps({"splits": {"train": train}}))


def train_all(folds: Sequence[Path], case: Case, *, timeout_seconds: float) -> None:
    """Train in the folders of folds, in as many processes as there are cores.

    Raises:
        StepError: see `cross_validate`.
    """
    deadline = time.monotonic() + timeout_seconds
    num_sharing = min(len(folds), num_cores())
    fork: Any = multiprocessing.get_context("fork").Process  # no second import of TensorFlow
    waiting, running = list(folds), dict[Any, tuple[Path, BaseProcess]]()
    try:
        while waiting or running:
            while waiting and len(running) < num_sharing:
                folder = waiting.pop(0)
                process = fork(target=_process, args=(folder, case, num_sharing, os.getpid()))
                process.start()
                running[process.sentinel] = folder, process
            ended = wait(list(running), timeout=max(deadline - time.monotonic(), 0))
            for sentinel in ended:
                folder, process = running.pop(sentinel)
                process.join()
                _check(folder, process.exitcode)
            if not ended:
                late = ", ".join(folder.name for folder, _ in running.values())
                raise StepError(
                    f"the training of {late} has not ended within {timeout_seconds:g} s, which is"
                    f" {SHARE_OF_TIME:g} of gate.timeout_seconds; raise that; {OFF}"
                )
    finally:
        for _, process in running.values():
            process.kill()
            process.join()


def _check(folder: Path, code: int | None) -> None:
    if not code:
        logger.info("%s is trained", folder.name)
        return
    lines = (folder / LOG_FILE).read_text(errors="replace").splitlines()[-NUM_LINES:] or ["no log"]
    logger.error("the log of %s ends with:\n%s", folder.name, "\n".join(lines))
    raise StepError(f"the training of {folder.name} ended with code {code}: {lines[-1]}; {OFF}")


def _process(folder: Path, case: Case, num_sharing: int, parent: int) -> None:
    """Train on a fold and predict its test split, with a log in its folder."""
    end_with(parent)
    os.environ[SHARE_VARIABLE] = str(num_cores(num_sharing=num_sharing))
    os.chdir(folder)  # for files that callbacks write
    log = os.open(LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    from trainer import task

    folders = f"--examples-dir={folder}", f"--output-dir={folder}"
    if code := task.main([*case.flags, *folders, "--strategy=single"]):
        sys.exit(code)
    _predict(str(folder), case)


def _predict(folder: str, case: Case) -> None:
    """Write the predictions of the trained model, and of a linear one of the same rows."""
    from components.evaluate.gate.rivals import simple_models
    from trainer.config.trust import OWN
    from trainer.examples.manifest import checked_split, read_manifest
    from trainer.examples.tables import read_table
    from trainer.serving.export import load_predictor

    predictor = load_predictor(f"{folder}/model", trust=OWN)
    workload = predictor.workload
    split = checked_split(read_manifest(folder, workload=workload.name), "test")
    features, labels = read_table(split, workload, compression="", raw=True)
    models: dict[str, Predict] = {MODEL: predictor.predict_values}
    models |= simple_models(workload, GateOptions.from_json(case.gate), folder)
    names = read_object(Path(case.model_dir, DESCRIPTION), "labels")["labels"]  # the deployed one's

    def predicted(predict: Predict) -> Array:
        return predict_table(
            lambda rows: with_columns(predict(rows), workload.labels, names),
            features,
            labels.numpy(),
            workload,
        )

    found: Any = {name: predicted(predict) for name, predict in models.items()}
    np.savez(f"{folder}/{PREDICTIONS_FILE}", **found)
