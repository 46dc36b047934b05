"""Predictions of a SavedModel from another program, by its signatures."""

import contextlib
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.python.framework import op_def_registry  # neither has a public name
from tensorflow.python.saved_model import loader_impl

from trainer.config.trust import STRANGER, Trust
from trainer.errors import TrainerError, first_line
from trainer.serving.export import (
    LOAD_ERRORS,
    SIGNATURE,
    Predictor,
    is_foreign,
    load_model,
    load_predictor,
    unloadable,
)
from trainer.serving.rows import Specs, find_signature, make_zeros, predict_rows, shown

_SERVE_TAG = "serve"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Inputs and outputs of a model, by name; the first dimension of each is the batch."""

    inputs: Specs
    outputs: Specs

    def __str__(self) -> str:
        return f"takes {shown(self.inputs)}, returns {shown(self.outputs)}"


def read_signature(model_dir: str) -> Signature:
    """Return a SavedModel's serving signature; TrainerError if it cannot be served row by row."""
    try:
        saved = loader_impl.parse_saved_model(model_dir)
    except (OSError, ValueError, tf.errors.OpError, DecodeError) as error:
        raise TrainerError(
            f"{model_dir} is not a SavedModel: {first_line(error)}; export or copy the model again"
        ) from error
    graphs = [graph for graph in saved.meta_graphs if _SERVE_TAG in graph.meta_info_def.tags]
    if not graphs:
        raise TrainerError(
            f"{model_dir} has no graph for serving (tag {_SERVE_TAG!r}); export it with Keras' "
            "model.export(DIR)"
        )
    for name in graphs[0].meta_info_def.stripped_op_list.op:
        if op_def_registry.get(name.name) is None:
            raise TrainerError(
                f"{model_dir} needs the operation {name.name!r}, which TensorFlow "
                f"{tf.__version__} does not have; export the model without it"
            )
    signatures = graphs[0].signature_def
    if SIGNATURE not in signatures or not signatures[SIGNATURE].inputs:
        names = (
            ", ".join(name for name in sorted(signatures) if not name.startswith("__")) or "none"
        )
        raise TrainerError(
            f"{model_dir} has no signature {SIGNATURE!r} with inputs (it has: {names}); export it "
            "with Keras' model.export(DIR), or tf.saved_model.save(…, signatures=…)"
        )
    signature = signatures[SIGNATURE]
    return Signature(
        inputs=_specs(signature.inputs, what="input", model_dir=model_dir),
        outputs=_specs(signature.outputs, what="output", model_dir=model_dir),
    )


def load_any(model_dir: str, *, trust: Trust = STRANGER) -> "Predictor | SignaturePredictor":
    """Return the predictor of a model of this trainer or of another program."""
    load = SignaturePredictor if is_foreign(model_dir) else load_predictor
    return load(model_dir, trust=trust)


class SignaturePredictor:
    """A loaded model from another program; safe to use from many threads."""

    def __init__(self, model_dir: str, *, trust: Trust = STRANGER):
        self._signature = read_signature(model_dir)
        try:
            self._loaded = load_model(model_dir, trust)  # keeps the variables alive
        except LOAD_ERRORS as error:
            raise unloadable(model_dir, error) from error
        self._predict = self._loaded.signatures[SIGNATURE]

    def warm_up(self) -> None:
        """Make a first prediction, if the model accepts zeros of the least shape."""
        with contextlib.suppress(tf.errors.OpError, TypeError, ValueError):
            self._predict(**make_zeros(self._signature.inputs))

    def predict(self, instances: list[Any], signature: str = SIGNATURE) -> list[Any]:
        """Return a prediction for each instance."""
        return predict_rows(find_signature(self._loaded, signature), instances)

    def prediction_specs(self) -> Any:
        """Return the specs of a batch of predictions by output, or the spec of the only output."""
        specs = self._signature.outputs
        if any(name.endswith("_bytes") for name in specs):  # texts, or {"b64": …}
            return None
        return next(iter(specs.values())) if len(specs) == 1 else specs


def _specs(tensors: Any, *, what: str, model_dir: str) -> Specs:
    specs = {}
    for name, info in sorted(tensors.items()):
        tensor = f"{model_dir}: its {what} {name!r}"
        if info.WhichOneof("encoding") != "name":
            raise TrainerError(
                f"{tensor} is a sparse or ragged tensor, which JSON cannot represent"
            )
        shape = tf.TensorShape(info.tensor_shape)
        if shape.rank is not None and (shape.rank == 0 or shape[0] is not None):
            raise TrainerError(
                f"{tensor} has shape {tuple(shape)}; the first dimension must be None, the batch"
            )
        specs[name] = tf.TensorSpec(shape, tf.as_dtype(info.dtype), name=name)
    return specs
