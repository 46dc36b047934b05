"""The learning rate of each step."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tensorflow as tf

# Of the peak: a difference that is no more than rounding.
_SAME_RATE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rate: it rises to its peak for the share `warmup` of all steps, then `kind`.

    `one_cycle` and `cosine` fall to zero as a cosine, `linear` falls in a line, `constant` stays.
    """

    peak: float
    total_steps: int
    warmup: float = 0.15
    kind: str = "one_cycle"

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate of a step, counted from 1."""
        done = tf.minimum(tf.cast(step, tf.float32) / self.total_steps, 1.0)
        after = self._after_peak(done)
        if not self.warmup:
            return self.peak * after
        return self.peak * tf.where(done < self.warmup, done / self.warmup, after)

    def warning(self, *, step: int, last_step: int, old: Mapping[str, Any]) -> str:
        """Returns what to know before training goes on after `step`, or "".

        `old` are the fields of the schedule that the steps until now followed; none are known of
        checkpoints that earlier versions have written.
        """
        said = []
        if old and asdict(self) != old:
            said.append(self._jump(step, Schedule(**old)))
        if self.kind != "constant" and max(step, self.total_steps) < last_step:
            first = max(step, self.total_steps) + 1
            said.append(
                f"the learning rate is zero from step {first} on, for its schedule ends at step"
                f" {self.total_steps}: nothing is learnt there; give a larger --schedule-steps"
            )
        return "; ".join(filter(None, said))

    def _jump(self, step: int, old: "Schedule") -> str:
        before, after = (float(one.rate(tf.constant(step + 1))) for one in (old, self))
        if abs(after - before) <= _SAME_RATE * max(old.peak, self.peak):
            return ""
        advice = ""
        if before and self.total_steps != old.total_steps:  # one that has ended would not learn
            advice = f"; give --schedule-steps {old.total_steps} to go on with the old one"
        return (
            f"the learning rate of step {step + 1} is {after:.3g} ({self}) and not the {before:.3g}"
            f" of the schedule until now ({old}){advice}"
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
