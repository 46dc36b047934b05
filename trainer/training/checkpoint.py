"""Checkpoints: written in the background, complete or ignored, the last few and the best kept.

A checkpoint is a folder `step-0000000500` with the state's vectors in TensorFlow's own format
(`tf.train.load_checkpoint` reads it) and, written last, `checkpoint.json` with the sizes of these
files and its own checksum. A folder without it, or with files of other sizes, was interrupted or
damaged and is ignored. This works on a disk and in a bucket, where folders cannot be renamed
atomically.
"""

import json
import logging
import math
import time
import zlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import tensorflow as tf

from trainer.errors import DivergedError, TrainerError, first_line
from trainer.runtime.files import delete_folder, read_json, write_json

logger = logging.getLogger(__name__)

_INFO_FILE = "checkpoint.json"
_PREFIX = "step-"
_STATE = "state"

Snapshot = Mapping[str, tf.Tensor]


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A complete checkpoint."""

    step: int
    path: str
    time: float = field(default_factory=time.time)
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """The progress of the driver; see `progress` in trainer.strategies."""
    schedule: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the learning rate schedule so far; see trainer.training.optimizers.schedule."""

    def load(self) -> dict[str, tf.Tensor]:
        """Return the saved vectors by name; TrainerError if a file is damaged."""
        try:
            reader = tf.train.load_checkpoint(f"{self.path}/{_STATE}")
            names = reader.get_variable_to_shape_map()
            return {name: tf.constant(reader.get_tensor(name)) for name in names}
        except (ValueError, RuntimeError, tf.errors.OpError) as error:
            raise TrainerError(
                f"the checkpoint {self.path} cannot be read ({first_line(error)}); delete that"
                " folder to resume from the one before, or give --fresh to start over"
            ) from error


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """The metric that decides which checkpoint is the best."""

    metric: str
    is_lower_better: bool

    def cost(self, metrics: Mapping[str, float]) -> float:
        """Return a number that is lower for a better model; infinite without the metric."""
        value = metrics.get(self.metric, math.nan)
        if not math.isfinite(value):
            return math.inf
        return value if self.is_lower_better else -value


class Checkpoints:
    """The checkpoints of one job: the last `keep`, and the best by a criterion."""

    def __init__(self, directory: str, *, keep: int, criterion: Criterion):
        self._directory, self._keep, self._criterion = directory, keep, criterion
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def latest(self) -> Saved | None:
        """Return the last complete checkpoint, or None; delete incomplete ones of a killed job."""
        for name in _step_folders(self._directory):
            if read_checkpoint(f"{self._directory}/{name}") is None:
                logger.info("deleting the incomplete checkpoint %s", name)
                delete_folder(f"{self._directory}/{name}")
        saved = list_checkpoints(self._directory)
        return saved[-1] if saved else None

    def save(
        self,
        snapshot: Snapshot,
        *,
        metrics: Mapping[str, float] | None = None,
        extra: Mapping[str, Any] | None = None,
        schedule: Mapping[str, Any] | None = None,
    ) -> int:
        """Start to write a snapshot in the background; return its step.

        Raises:
            DivergedError: the weights or the state are not finite; earlier checkpoints are kept.
            OSError, tf.errors.OpError: writing the previous checkpoint failed.
        """
        step = int(snapshot["global_step"])
        for name in ("weights", "state"):
            if name in snapshot and not bool(tf.reduce_all(tf.math.is_finite(snapshot[name]))):
                raise DivergedError(f"step {step}: the {name} are not finite")
        self.wait()
        saved = Saved(
            step=step,
            path=f"{self._directory}/{_PREFIX}{step:010d}",
            metrics=metrics or {},
            extra=extra or {},
            schedule=schedule or {},
        )
        self._writing = self._writer.submit(self._write, saved, snapshot)
        return step

    def wait(self) -> None:
        """Wait until the last checkpoint is written; raise the error of writing it."""
        if self._writing:
            writing, self._writing = self._writing, None
            writing.result()

    def _write(self, saved: Saved, snapshot: Snapshot) -> None:
        if read_checkpoint(saved.path) is None:
            delete_folder(saved.path)
            tf.io.gfile.makedirs(saved.path)
            names = sorted(snapshot)
            tf.raw_ops.SaveV2(
                prefix=f"{saved.path}/{_STATE}",
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=[snapshot[name] for name in names],
            )
        elif not saved.metrics:
            return
        _write_info(saved)
        logger.debug("saved %s", saved.path)
        self._delete_old()

    def _delete_old(self) -> None:
        saved = list_checkpoints(self._directory)
        best = best_checkpoint(saved, self._criterion)
        for old in saved[: -self._keep]:
            if old != best:
                # First the file that makes it complete: an interrupted deletion leaves none.
                tf.io.gfile.remove(f"{old.path}/{_INFO_FILE}")
                delete_folder(old.path)


def list_checkpoints(directory: str) -> list[Saved]:
    """Return the complete checkpoints of a folder, the oldest first."""
    checkpoints = [read_checkpoint(f"{directory}/{name}") for name in _step_folders(directory)]
    return sorted((saved for saved in checkpoints if saved), key=lambda saved: saved.step)


def best_checkpoint(saved: list[Saved], criterion: Criterion) -> Saved | None:
    """Return the best of the checkpoints that were evaluated, the oldest of equals."""
    measured = [entry for entry in saved if math.isfinite(criterion.cost(entry.metrics))]
    return min(measured, key=lambda entry: criterion.cost(entry.metrics), default=None)


def read_checkpoint(path: str) -> Saved | None:
    """Return the checkpoint of one folder, or None if it is incomplete or damaged."""
    try:
        info = read_json(f"{path}/{_INFO_FILE}")
        if info.pop("crc32") != _checksum(info):
            return None
        for name, size in info.pop("files").items():
            if tf.io.gfile.stat(f"{path}/{name}").length != size:
                return None
        return Saved(path=path, **info)
    except (tf.errors.NotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _step_folders(directory: str) -> list[str]:
    if not tf.io.gfile.isdir(directory):
        return []
    # In a bucket the names of folders end with a slash.
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(directory))
    return sorted(name for name in names if name.startswith(_PREFIX))


def _checksum(info: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(info).encode())


def _write_info(saved: Saved) -> None:
    names = [name for name in tf.io.gfile.listdir(saved.path) if name.startswith(_STATE)]
    info = asdict(saved)
    del info["path"]
    info["files"] = {name: tf.io.gfile.stat(f"{saved.path}/{name}").length for name in names}
    info["crc32"] = _checksum(info)
    write_json(f"{saved.path}/{_INFO_FILE}", info)
