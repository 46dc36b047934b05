"""Trainings on folds: each in a process and a folder of its own, several side by side."""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.errors import StepError
from components.model_version.companions import STATISTICS_FILE
from components.prepare_examples.existing_records.read import read_records
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.tfrecords.records import frame_row, record_file
from components.prepare_examples.tfrecords.shards import shard_file
from components.shared.text.json_object import read_object
from trainer import Json
from trainer.config.train_config import parse_flags
from trainer.runtime.cores import SHARE_VARIABLE, num_cores
from trainer.runtime.processes import end_with, process_context
from trainer.training.results.tuning import TRIAL_VARIABLE

OFF = "without folds: gate.folds=0"
LOG_FILE, NUM_LINES = "log.txt", 20
Array = NDArray[Any]

logger = logging.getLogger(__name__)


class SplitRows:
    """The rows of some splits of a dataset, and the hash of each one.

    Raises:
        DataError: a file is damaged.
    """

    def __init__(self, examples_dir: str, manifest: Json, splits: Sequence[str]) -> None:
        shards = shards_of(manifest, splits)
        paths = [Path(examples_dir, shard["file"]) for shard in shards]
        self.records = [record for path in paths for record in read_records(path)]
        self.keys = keys_of(shards)
        self._workload = manifest["workload"]
        statistics = read_object(Path(examples_dir, STATISTICS_FILE), "splits.train.features")
        self._features = statistics["splits"]["train"]["features"]

    def write_all(self, root: Path, folds: Sequence[Mapping[str, Array]]) -> list[Path]:
        """Write each fold into a folder of its own, and return the folders."""
        folders = [root / f"fold {number} of {len(folds)}" for number in range(1, len(folds) + 1)]
        for folder, fold in zip(folders, folds, strict=True):
            self.write(folder, fold)
        return folders

    def write(self, folder: Path, fold: Mapping[str, Array]) -> None:
        """Write the rows of a fold's splits as a dataset, with the statistics of all columns."""
        folder.mkdir(parents=True, exist_ok=True)
        splits: Json = {}
        for name, numbers in fold.items():
            path = folder / shard_file(name, 0, 1, "")
            with record_file(path, compression="") as file:
                file.write(b"".join(frame_row(self.records[number]) for number in numbers))
            shard = {"file": path.name, "num_examples": len(numbers), **file.digests()}
            splits[name] = {"num_examples": len(numbers), "shards": [shard]}
        content = {"workload": self._workload, "compression": "", "splits": splits}
        (folder / MANIFEST).write_text(json.dumps(content), encoding="utf-8")
        _write_statistics(folder, len(fold["train"]), self._features)


def _write_statistics(folder: Path, num_examples: int, features: Json) -> None:
    train = {"num_examples": num_examples, "features": features}
    (folder / STATISTICS_FILE).write_text(json.dumps({"splits": {"train": train}}))


def shards_of(manifest: Json, splits: Sequence[str]) -> list[Json]:
    """Return the files of some splits, in the order of the splits."""
    of_splits = manifest["splits"]
    return [shard for name in splits for shard in of_splits.get(name, {}).get("shards", ())]


def keys_of(shards: Sequence[Json]) -> NDArray[np.uint64]:
    """Return the hashes of the rows of files, as far as a manifest has them."""
    return np.frombuffer(bytes.fromhex("".join(s.get("keys", "") for s in shards)), np.uint64)


def deal(keys: NDArray[np.uint64], num_parts: int) -> Array:
    """Return the part of each row; rows of the same key are in the same one.

    The largest groups are dealt first, so that all parts are about as large.
    """
    _, groups, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    parts, filled = np.empty(len(sizes), np.int64), np.zeros(num_parts, np.int64)
    for group in np.argsort(-sizes, kind="stable"):
        parts[group] = filled.argmin()
        filled[parts[group]] += sizes[group]
    return parts[groups]


def train_all(
    folds: Sequence[Path],
    flags: Sequence[str],
    *,
    timeout_seconds: float,
    then: Callable[[Path], None] | None = None,
) -> Iterator[Path]:
    """Train in folders, in as many processes as there are cores; yield each one at its end.

    The processes are forked, so TensorFlow must not have run in this one. `folds` are folders
    with a dataset, `flags` the trainer's; `timeout_seconds` is for all of them. `then` is
    called in the process of a fold after its training.

    Raises:
        StepError: a training fails, or has not ended in time.
    """
    deadline = time.monotonic() + timeout_seconds
    num_sharing = min(len(folds), num_cores())
    start: Any = process_context().Process
    waiting, running = list(folds), dict[Any, tuple[Path, BaseProcess]]()
    try:
        while waiting or running:
            while waiting and len(running) < num_sharing:
                folder = waiting.pop(0)
                arguments = (folder, flags, then, num_sharing, os.getpid())
                process = start(target=_process, args=arguments)
                process.start()
                running[process.sentinel] = folder, process
            ended = wait(list(running), timeout=max(deadline - time.monotonic(), 0))
            if not ended:
                late = ", ".join(folder.name for folder, _ in running.values())
                raise StepError(
                    f"the training of {late} has not ended within {timeout_seconds:g} s; raise"
                    f" gate.timeout_seconds; {OFF}"
                )
            for sentinel in ended:
                folder, process = running.pop(sentinel)
                process.join()
                _check(folder, process.exitcode)
                yield folder
    finally:
        for _, process in running.values():
            process.kill()
            process.join()


def _check(folder: Path, code: int | None) -> None:
    if not code:
        return
    lines = (folder / LOG_FILE).read_text(errors="replace").splitlines()[-NUM_LINES:] or ["no log"]
    logger.error("the log of %s ends with:\n%s", folder.name, "\n".join(lines))
    raise StepError(f"the training of {folder.name} ended with code {code}: {lines[-1]}; {OFF}")


def _process(
    folder: Path,
    flags: Sequence[str],
    then: Callable[[Path], None] | None,
    num_sharing: int,
    parent: int,
) -> None:
    """Train on a fold, with a log in its folder."""
    end_with(parent)
    os.environ[SHARE_VARIABLE] = str(num_cores(num_sharing=num_sharing))
    os.environ.pop(TRIAL_VARIABLE, "")  # only all folds together are a measurement
    os.chdir(folder)  # for files that callbacks write
    log = os.open(LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    from trainer import task

    flags = [*flags, f"--examples-dir={folder}", f"--output-dir={folder}", "--strategy=single"]
    _keep_label(folder, parse_flags(flags).chosen_workload().label.column)
    if code := task.main(flags):
        sys.exit(code)
    if then:
        then(folder)


def _keep_label(folder: Path, column: str) -> None:
    """Keep the statistics of the label only.

    So weights and names of classes are the run's; all else is learnt from the fold's rows.
    """
    train = read_object(folder / STATISTICS_FILE)["splits"]["train"]
    features = {name: found for name, found in train["features"].items() if name == column}
    _write_statistics(folder, train["num_examples"], features)
