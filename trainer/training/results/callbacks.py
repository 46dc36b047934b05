"""Keras callbacks of a workload, called by the replica that writes the results.

Their hooks of the training, of epochs and of evaluations are called, as often and with the logs as
by `fit`: the metrics of the epoch's steps, and of the eval split with the prefix `val_`. The
model that they see has the weights of the end of the epoch. Steps run in the graph, many in a call,
so hooks of batches are not called.
"""

import logging
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from trainer.errors import ConfigError
from trainer.workloads.base import Workload

logger = logging.getLogger(__name__)

_RATE_CALLBACKS = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)
_UNSUPPORTED = {
    "BackupAndRestore": "the checkpoints of a job do what it does; a job that is killed resumes",
    "SwapEMAWeights": "evaluations and the exported model have the averages of use_ema",
}
_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


class Callbacks:
    """The callbacks of a job; `model` is the Keras model with the evaluated weights.

    `rate` is the learning rate, None if it is not a number that callbacks may change.
    """

    def __init__(
        self,
        workload: Workload,
        model: Any,
        rate: tf.Variable | None,
        *,
        epochs: int,
        steps: int,
    ):
        declared = workload.callbacks
        callbacks = list(declared() if callable(declared) else declared)
        self._model, self._rate = model, rate
        for callback in callbacks:
            _check(callback, has_number=rate is not None)
        self._list = keras.callbacks.CallbackList(
            callbacks, model=model, epochs=epochs, steps=steps, verbose=0
        )
        self._is_any = bool(callbacks)

    def __bool__(self) -> bool:
        return self._is_any

    @property
    def should_stop(self) -> bool:
        """True if a callback has set `model.stop_training`."""
        return bool(self._is_any and self._model.stop_training)

    def begin(self, epoch: int) -> float | None:
        """Call the hooks of the beginning, in an epoch counted from 0; return as `end_epoch`."""
        self._model.stop_training = False
        before = self._rate_before()
        self._list.on_train_begin()
        self._list.on_epoch_begin(epoch)
        return self._changed_rate(before)

    def end_epoch(
        self,
        epoch: int,
        train: Mapping[str, float],
        evaluation: Mapping[str, float],
        *,
        is_last: bool,
    ) -> float | None:
        """Call the hooks after an epoch; return the learning rate if a callback has changed it."""
        before = self._rate_before()
        logs = {**train, **{f"val_{name}": value for name, value in evaluation.items()}}
        self._list.on_test_begin()
        self._list.on_test_end(dict(evaluation))
        self._list.on_epoch_end(epoch, logs)
        if not (is_last or self.should_stop):
            self._list.on_epoch_begin(epoch + 1)
        return self._changed_rate(before)

    def end(self) -> None:
        """Call `on_train_end`."""
        self._list.on_train_end()

    def _rate_before(self) -> float | None:
        """Set the rate that callbacks see to the job's rate, which may have been resumed."""
        if self._rate is None:
            return None
        self._model.optimizer.learning_rate = float(self._rate)
        return float(self._model.optimizer.learning_rate)

    def _changed_rate(self, before: float | None) -> float | None:
        rate = None if self._rate is None else float(self._model.optimizer.learning_rate)
        return None if rate == before else rate


def _check(callback: Any, *, has_number: bool) -> None:
    name = type(callback).__name__
    if not isinstance(callback, keras.callbacks.Callback):
        raise ConfigError(f"callbacks: {name} is not a keras.callbacks.Callback")
    if name in _UNSUPPORTED and type(callback).__module__.startswith("keras."):
        raise ConfigError(f"callbacks: remove {name}: {_UNSUPPORTED[name]}")
    if isinstance(callback, _RATE_CALLBACKS) and not has_number:
        raise ConfigError(
            f"callbacks: {name} changes the learning rate, so the model must be compiled with an"
            " optimizer whose learning rate is a number"
        )
    hooks = {hook: getattr(callback, hook) for hook in _BATCH_HOOKS}
    ignored = [name for name, hook in hooks.items() if not getattr(hook, "_is_default", False)]
    if ignored:
        logger.warning(
            "callbacks: %s.%s is not called, because many steps run in one call of the graph; use"
            " the hooks of epochs",
            name,
            ignored[0],
        )
