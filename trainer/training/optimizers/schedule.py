"""The learning rate of each step."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import keras
import tensorflow as tf

# A smaller difference, relative to the peak, is rounding.
_SAME_RATE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Learning rate: a linear warm-up to the peak in the share `warmup` of all steps, then `kind`.

    `one_cycle` and `cosine` fall to zero as a cosine, `linear` falls in a line, `constant` stays.
    """

    variable: ClassVar[None] = None
    """No callback may change it."""
    peak: float
    total_steps: int
    warmup: float = 0.15
    kind: str = "one_cycle"

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """Return the learning rate of a step, counted from 1."""
        done = tf.minimum(tf.cast(step, tf.float32) / self.total_steps, 1.0)
        after = self._after_peak(done)
        if not self.warmup:
            return self.peak * after
        return self.peak * tf.where(done < self.warmup, done / self.warmup, after)

    def warning(self, *, step: int, last_step: int, old: Mapping[str, Any]) -> str:
        """Return a warning about resuming after `step`, or ""; `old` has the schedule so far."""
        warnings = []
        if old and asdict(self) != old:
            warnings.append(self._describe_jump(step, Schedule(**old)))
        if self.kind != "constant" and max(step, self.total_steps) < last_step:
            first = max(step, self.total_steps) + 1
            warnings.append(
                f"the learning rate is zero from step {first} on, because its schedule ends at step"
                f" {self.total_steps}: nothing is learned there; give a larger --schedule-steps"
            )
        return "; ".join(filter(None, warnings))

    def _describe_jump(self, step: int, old: "Schedule") -> str:
        next_step = tf.constant(step + 1)
        before, after = float(old.rate(next_step)), float(self.rate(next_step))
        if abs(after - before) <= _SAME_RATE * max(old.peak, self.peak):
            return ""
        advice = ""
        if before and self.total_steps != old.total_steps:  # at a rate of 0 it has ended
            advice = f"; give --schedule-steps {old.total_steps} to continue the old schedule"
        return (
            f"the learning rate of step {step + 1} is {after:.3g} ({self}), not {before:.3g} as in"
            f" the schedule so far ({old}){advice}"
        )

    def __str__(self) -> str:
        return (
            f"{self.kind} over {self.total_steps} steps, peak {self.peak:g}, warm-up"
            f" {round(self.warmup * self.total_steps)} steps"
        )

    def _after_peak(self, done: tf.Tensor) -> tf.Tensor:
        if self.kind == "constant":
            return tf.ones_like(done)
        if self.kind == "linear":
            return 1 - (done - self.warmup) / (1 - self.warmup)
        return 0.5 * (1 + tf.cos(math.pi * (done - self.warmup) / (1 - self.warmup)))


class KerasRate:
    """The learning rate of a compiled optimizer: a number, a schedule or a function.

    `variable` holds a number, which callbacks may change; it is None for the other two.
    """

    def __init__(self, optimizer: Any):
        self._source = optimizer._learning_rate
        is_number = not callable(self._source)
        self.variable = tf.Variable(float(self._source.numpy())) if is_number else None

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """Return the learning rate of a step, counted from 1."""
        if self.variable is not None:
            return self.variable.read_value()
        is_schedule = isinstance(self._source, keras.optimizers.schedules.LearningRateSchedule)
        # Keras counts from 0.
        rate = self._source(tf.cast(step, tf.int64) - 1) if is_schedule else self._source()
        return tf.cast(rate, tf.float32)
