"""Updates of a flat vector of weights: our fused operations against the same rule in Keras' code.

The last two columns of a Keras optimizer are with and without the critical section that keeps the
updates of several workers apart.
"""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.support.report import report
from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from trainer.training.optimizers.adam import Adam  # noqa: E402
from trainer.training.optimizers.base import Optimizer, Step  # noqa: E402
from trainer.training.optimizers.compiled import KerasOptimizer  # noqa: E402
from trainer.training.optimizers.fused import (  # noqa: E402
    Adagrad,
    Ftrl,
    KerasSgd,
    RmsProp,
)

SIZES = {62_000: 400, 10_000_000: 8}
REPEATS = 5
PAIRS: dict[str, tuple[Optimizer, Callable[[], Any]]] = {
    "adam": (Adam(), keras.optimizers.Adam),
    "sgd": (
        KerasSgd(momentum=0.9, is_nesterov=True),
        lambda: keras.optimizers.SGD(momentum=0.9, nesterov=True),
    ),
    "rmsprop": (RmsProp(), keras.optimizers.RMSprop),
    "adagrad": (Adagrad(), keras.optimizers.Adagrad),
    "ftrl": (Ftrl(), keras.optimizers.Ftrl),
}


def measure(optimizer: Optimizer, size: int, *, steps: int, is_shared: bool = False) -> float:
    """Return the microseconds of an update, the least of some repeats."""
    weights = tf.Variable(tf.random.stateless_normal([size], [1, 2]))
    gradient = tf.random.stateless_normal([size], [3, 4]) * 1e-3
    optimizer = optimizer.for_piece((), is_shared=is_shared)
    slots = optimizer.make_slots(weights)

    @tf.function(autograph=False)
    def run() -> Any:
        def update(step: tf.Tensor) -> tuple[tf.Tensor]:
            optimizer.apply(weights, slots, gradient, Step(step + 1, tf.constant(1e-3)))
            return (step + 1,)

        return tf.while_loop(lambda step: step < steps, update, (tf.constant(0, tf.int64),))

    run()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times) / steps * 1e6


def main() -> None:
    """Print a line for each optimizer and size."""
    for size, steps in SIZES.items():
        for name, (fused, make) in PAIRS.items():
            ours = measure(fused, size, steps=steps)
            theirs = KerasOptimizer(make(), needs_layers=False, decays=[True])
            alone = measure(theirs, size, steps=steps)
            locked = measure(theirs, size, steps=steps, is_shared=True)
            report(
                f"update of {size:,} weights, {name}",
                ours=ours,
                theirs=alone,
                unit="µs",
                lower_is_better=True,
                theirs_locked=locked,
            )


if __name__ == "__main__":
    main()
