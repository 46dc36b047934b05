"""Saves and restores a job's state; the last few checkpoints are kept."""

import logging
from typing import Any

import tensorflow as tf

from trainer.errors import TrainerError, first_line
from trainer.parameters import Layout, Parameters

logger = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one job.

    What is saved is the Keras model with optimizer state and step beside it, all held by the
    chief: the files do not depend on strategy or on the number of parameter servers.
    """

    def __init__(self, model: Any, parameters: Parameters, *, directory: str, keep: int):
        self._model, self._layout, self._parameters = model, Layout(model), parameters
        self._slots = {
            name: tf.Variable(tf.zeros([self._layout.size]), trainable=False)
            for name in parameters.slot_names
        }
        self._step = tf.Variable(0, dtype=tf.int64)
        self._checkpoint = tf.train.Checkpoint(model=model, global_step=self._step, **self._slots)
        self._manager = tf.train.CheckpointManager(self._checkpoint, directory, max_to_keep=keep)

    def restore(self) -> int:
        """Loads the latest checkpoint, if there is one, and returns its step (else 0)."""
        path = self._manager.latest_checkpoint
        if not path:
            return 0
        try:
            self._checkpoint.restore(path).assert_existing_objects_matched()
        except (ValueError, AssertionError, tf.errors.OpError) as error:
            raise TrainerError(
                f"the checkpoint {path} cannot be restored ({first_line(error)});"
                " give --fresh to start over, or another --output-dir"
            ) from error
        state = {name: slot.read_value() for name, slot in self._slots.items()}
        state["weights"] = self._layout.read(self._model)
        state["state"] = self._layout.read_state(self._model)
        state["global_step"] = self._step.read_value()
        self._parameters.load(state)
        return int(self._step.numpy())

    def save(self) -> int:
        """Saves the current state, also while workers go on training, and returns its step."""
        state = self._parameters.snapshot()
        self._layout.write(state["weights"], self._model, state=state["state"])
        for name, slot in self._slots.items():
            slot.assign(state[name])
        self._step.assign(state["global_step"])
        step = int(self._step.numpy())
        path = self._manager.save(checkpoint_number=step)
        logger.debug("saved %s", path)
        return step


def delete_folder(path: str) -> None:
    """Deletes a folder of an earlier job, if it is there."""
    if tf.io.gfile.isdir(path):
        tf.io.gfile.rmtree(path)
