"""Labels that a script scales: the model predicts the file's numbers, and its loss scales them."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from pipelines.projects.literals import quoted
from pipelines.projects.scripts.compare_rows import Array, Origin
from pipelines.projects.scripts.keras_source import Source, number

LOSS = '''\
def loss_of_scaled(labels, outputs):
    """Return the loss of {file}, which trains on labels that it scales."""
    return {loss}({labels}, {outputs})'''


def scaled_loss(scale: Origin, loss: Any, source: Source) -> str:
    """Return the source of a loss that scales labels and outputs as a script scales its labels."""
    if isinstance(loss, list | tuple | Mapping):
        [loss] = loss.values() if isinstance(loss, Mapping) else loss
    made = source.of(loss)
    if isinstance(loss, str):
        made = f"keras.losses.get({made})"
    elif isinstance(loss, keras.losses.Loss):
        made = f"{made}.call"
    return LOSS.format(
        file=quoted(source.script.path.name)[1:-1],
        loss=made,
        labels=forward(scale, "labels"),
        outputs=forward(scale, "outputs"),
    )


def forward(scale: Origin, name: str) -> str:
    """Return the expression of numbers as the script scales its label."""
    if scale.log_shift is not None:
        shift = f" + {number(scale.log_shift)}" if scale.log_shift else ""
        name = f"keras.ops.log({name}{shift})"
    moved = f"({name} - {number(scale.mean)})" if scale.mean else name
    return f"{moved} / {number(scale.deviation)}" if scale.deviation != 1 else moved


def backward(scale: Origin, outputs: str) -> str:
    """Return the expression of the file's numbers, of outputs that are like scaled labels."""
    made = f"keras.layers.Rescaling({number(scale.deviation)}, {number(scale.mean)})({outputs})"
    if scale.log_shift is None:
        return made
    return f"keras.ops.exp({made}) - {number(scale.log_shift)}"


def scaled(scale: Origin, values: Array) -> Array:
    """Return numbers as the script scales its label."""
    values = values if scale.log_shift is None else np.log(values + scale.log_shift)
    return (values - scale.mean) / scale.deviation
