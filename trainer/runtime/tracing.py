"""Functions of TensorFlow whose graph is what their Python code does as it stands.

AutoGraph would rewrite them, and all that they call, to make loops and conditions of Python's own.
There are none on tensors here, and the rewriting takes several times as long as the tracing.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def traced(function: Callable[..., Any], **options: Any) -> Any:
    """Returns the function as a `tf.function`; `options` are that one's."""
    return tf.function(function, autograph=False, **options)


def plain(function: Callable[..., Any]) -> Any:
    """Returns the function as tf.data is to take it."""
    return tf.autograph.experimental.do_not_convert(function)
