"""Reports of a job in training: the progress line, metrics.jsonl and TensorBoard."""

import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.runtime.progress import Progress, format_progress
from trainer.serving.strict_json import finite
from trainer.training.results.tuning import report_to_tuner

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 1.0
# Results of workers arrive in bursts: a rate over a shorter time would be meaningless.
_MIN_RATE_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums over some steps; sums, not means, so that several workers' can be added."""

    steps: int
    examples: int
    sums: np.ndarray
    """The contributions of these steps; see trainer.training.model.objective."""

    @property
    def mean_loss(self) -> float:
        """The mean loss of an example; 0 without examples."""
        return float(self.sums[0]) / self.examples if self.examples else 0.0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            steps=self.steps + other.steps,
            examples=self.examples + other.examples,
            sums=self.sums + other.sums,
        )


NOTHING = Totals(steps=0, examples=0, sums=np.zeros(1))


class StepRate:
    """Steps per second of wall clock, over at least `_MIN_RATE_SECONDS`."""

    def __init__(self, num_done: int):
        self._readings = deque([(time.monotonic(), num_done)])

    def read(self, num_done: int) -> float:
        """Return the steps per second since an earlier call, given the number of steps so far."""
        now = time.monotonic()
        while len(self._readings) > 1 and now - self._readings[1][0] >= _MIN_RATE_SECONDS:
            self._readings.popleft()
        earlier, num_before = self._readings[0]
        self._readings.append((now, num_done))
        return (num_done - num_before) / max(now - earlier, 1e-9)


class Recorder:
    """Recorder of the totals of finished steps, which reports them every `every_steps` steps.

    With the `log_dir` "", of the replicas that are not the chief, it only logs progress.

    In asynchronous training `count_steps` returns the number of steps, each of `batch_size`
    examples, that the workers have applied. Speed is computed from it: totals arrive later and in
    bursts, after an evaluation for example, so the time between two of them is meaningless.
    `measure` returns the metrics of totals.
    """

    def __init__(
        self,
        log_dir: str,
        *,
        first_step: int,
        total_steps: int,
        every_steps: int,
        measure: Callable[[Totals], Mapping[str, float]],
        batch_size: int = 0,
        count_steps: Callable[[], int] | None = None,
    ):
        self.step, self._measure = first_step, measure
        self._batch_size = batch_size
        self._count_steps, self._rate = count_steps, StepRate(first_step)
        self._total_steps, self._every_steps = total_steps, every_steps
        self._train, self._eval = (_writer(log_dir, split) for split in ("train", "eval"))
        self._path = log_dir and f"{log_dir}/metrics.jsonl"
        self._pending, self._since = NOTHING, time.monotonic()
        self._last_line = 0.0

    def add(self, totals: Totals, *, learning_rate: float = 0.0) -> None:
        """Add finished steps; report every `every_steps` steps and after the last one."""
        self._pending += totals
        last_report = self.step - self.step % self._every_steps
        self.step += totals.steps
        is_due = self.step - last_report >= self._every_steps or not self._last_line
        if is_due or self.step >= self._total_steps:
            self._report(learning_rate)

    @contextlib.contextmanager
    def exclude_time(self) -> Iterator[None]:
        """Exclude the time spent in the block, such as an evaluation, from the training speed."""
        start = time.monotonic()
        yield
        self._since += time.monotonic() - start

    def add_evaluation(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Record the metrics of the eval split after a step."""
        self._write(self._eval, "eval", metrics, step=step)
        report_to_tuner(metrics, step=step)
        log_evaluation(metrics, step=step)

    def add_histograms(self, values: Mapping[str, tf.Tensor], *, step: int) -> None:
        """Record a histogram of each tensor after a step."""
        with self._train.as_default(step=step):
            for name, tensor in values.items():
                tf.summary.histogram(name, tensor)

    def close(self) -> None:
        """Flush the files of TensorBoard."""
        self._train.close()
        self._eval.close()

    def _report(self, learning_rate: float) -> None:
        values = {**self._measure(self._pending), **self._speed(), "learning_rate": learning_rate}
        self._write(self._train, "train", values, step=self.step)
        self._log_line(values)
        self._pending, self._since = NOTHING, time.monotonic()

    def _speed(self) -> dict[str, float]:
        steps, examples = max(self._pending.steps, 1), self._pending.examples
        if self._count_steps is None:
            seconds = max(time.monotonic() - self._since, 1e-9)
            return {"examples_per_second": examples / seconds, "step_ms": 1000 * seconds / steps}
        rate = max(self._rate.read(self._count_steps()), 1e-9)
        return {"examples_per_second": rate * self._batch_size, "step_ms": 1000 / rate}

    def _log_line(self, values: dict[str, float]) -> None:
        now = time.monotonic()
        is_last = self.step >= self._total_steps
        if now - self._last_line < _SECONDS_BETWEEN_LINES and self._last_line and not is_last:
            return
        self._last_line = now
        progress = Progress(
            replica="",
            step=self.step,
            total_steps=self._total_steps,
            loss=values["loss"],
            accuracy=values.get("accuracy"),
            examples_per_second=round(values["examples_per_second"]),
            step_ms=values["step_ms"],
            seconds_left=round(values["step_ms"] * (self._total_steps - self.step) / 1000),
        )
        logger.info("%s", format_progress(progress), extra={"is_transient": not is_last})

    def _write(self, writer: Any, split: str, values: Mapping[str, float], *, step: int) -> None:
        if not self._path:
            return
        write_metrics(writer, self._path, {"step": step, "split": split}, values)


def write_metrics(
    writer: Any, path: str, about: Mapping[str, Any], values: Mapping[str, float]
) -> None:
    """Write metrics for TensorBoard and as a line of JSON; `about` has the step."""
    with writer.as_default(step=about["step"]):
        for name, value in values.items():
            tf.summary.scalar(name, value)
    with tf.io.gfile.GFile(path, "a") as file:
        file.write(json.dumps(finite({**about, **values, "time": time.time()})) + "\n")


def log_evaluation(metrics: Mapping[str, float], *, step: int) -> None:
    """Log the metrics of the eval split after a step."""
    shown = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
    logger.info("step %d eval: %s", step, shown)


def _writer(log_dir: str, split: str) -> Any:
    if not log_dir:
        return tf.summary.create_noop_writer()
    return tf.summary.create_file_writer(f"{log_dir}/{split}")
