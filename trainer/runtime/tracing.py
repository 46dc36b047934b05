"""Tracing without AutoGraph.

AutoGraph rewrites a function, and all that it calls, to translate Python's loops and conditions on
tensors. There are none here, and the rewriting takes several times as long as the tracing.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def traced(function: Callable[..., Any], **options: Any) -> Any:
    """Return the function as a `tf.function` with these options."""
    return tf.function(function, autograph=False, **options)


def plain(function: Callable[..., Any]) -> Any:
    """Return the function for tf.data, which would rewrite it otherwise."""
    return tf.autograph.experimental.do_not_convert(function)
