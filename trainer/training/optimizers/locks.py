"""Critical sections, which keep the updates of several workers on a server apart."""

import uuid
from collections.abc import Callable

import tensorflow as tf


class Lock:
    """A critical section on the device where it is created; none if one worker updates alone."""

    def __init__(self, *, is_shared: bool):
        # Without a name of its own, it would be another piece's section on the same server.
        self._section = tf.CriticalSection(shared_name=uuid.uuid4().hex) if is_shared else None

    def run(self, function: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Call a function that reads or changes variables, and return its tensors.

        All of it is done before another call begins.
        """
        if self._section is None:
            return function()
        tensors: list[tf.Tensor] = self._section.execute(lambda: _finish(function))
        return tensors[:-1]


def _finish(function: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
    """Return the tensors of a function, and one more: there may be none."""
    graph = tf.compat.v1.get_default_graph()
    first = 0 if tf.executing_eagerly() else len(graph.get_operations())
    tensors = function()
    done = [] if tf.executing_eagerly() else graph.get_operations()[first:]
    # The critical section ends when its results are there: after all changes.
    with tf.control_dependencies(done):
        return [*map(tf.identity, tensors), tf.constant(0)]
