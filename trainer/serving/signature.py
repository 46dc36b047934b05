"""Predictions of a SavedModel from another program, by its `serving_default` signature.

Instances and predictions have TensorFlow Serving's row form: the value of the only input, or an
object of values by input; the value of the only output, or an object of values by output.
https://www.tensorflow.org/tfx/serving/api_rest#predict_api
"""

import base64
import binascii
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.python.framework import op_def_registry  # neither has a public name
from tensorflow.python.saved_model import loader_impl

from trainer.config.trust import STRANGER, Trust
from trainer.errors import InstanceError, TrainerError, first_line
from trainer.serving.export import LOAD_ERRORS, SIGNATURE, check_trusted_graph, unloadable
from trainer.serving.tensors import call_with_tensors

Specs = dict[str, tf.TensorSpec]
_SERVE_TAG = "serve"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Inputs and outputs of a model, by name; the first dimension of each is the batch."""

    inputs: Specs
    outputs: Specs

    def __str__(self) -> str:
        """Return the contents of an instance and of a prediction, without the batch dimension."""
        return f"takes {_shown(self.inputs)}, returns {_shown(self.outputs)}"


def read_signature(model_dir: str) -> Signature:
    """Return the serving signature of a SavedModel, without loading its variables.

    Raises:
        TrainerError: the model cannot be served row by row; says why and what to do.
    """
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
    found = graphs[0].signature_def
    if SIGNATURE not in found or not found[SIGNATURE].inputs:
        others = ", ".join(name for name in sorted(found) if not name.startswith("__")) or "none"
        raise TrainerError(
            f"{model_dir} has no signature {SIGNATURE!r} with inputs (it has: {others}); export it "
            "with Keras' model.export(DIR), or tf.saved_model.save(…, signatures=…)"
        )
    signature = found[SIGNATURE]
    return Signature(
        inputs=_specs(signature.inputs, what="input", model_dir=model_dir),
        outputs=_specs(signature.outputs, what="output", model_dir=model_dir),
    )


class SignaturePredictor:
    """A loaded model from another program; safe to use from many threads."""

    def __init__(self, model_dir: str, *, trust: Trust = STRANGER):
        self._signature = read_signature(model_dir)
        try:
            check_trusted_graph(model_dir, trust)
            self._loaded = tf.saved_model.load(model_dir)  # keeps the variables alive
        except LOAD_ERRORS as error:
            raise unloadable(model_dir, error) from error
        self._predict = self._loaded.signatures[SIGNATURE]

    def warm_up(self) -> None:
        """Make a first prediction, if the model accepts zeros of the least shape."""
        with contextlib.suppress(tf.errors.OpError, TypeError, ValueError):
            zeros = {
                name: tf.zeros([size or 1 for size in spec.shape], spec.dtype)
                for name, spec in self._signature.inputs.items()
            }
            self._predict(**zeros)

    def predict(self, instances: list[Any]) -> list[Any]:
        """Return a prediction for each instance."""
        rows = [self._parse(index, instance) for index, instance in enumerate(instances)]
        columns = {
            name: _stacked([row[name] for row in rows], name) for name in self._signature.inputs
        }
        outputs = call_with_tensors(self._predict, columns)
        lists = {name: _as_json(name, output) for name, output in outputs.items()}
        for name, values in lists.items():
            if len(values) != len(instances):
                raise InstanceError(
                    f"the output {name!r} has {len(values)} rows for {len(instances)} instances"
                )
        if len(lists) == 1:
            return next(iter(lists.values()))
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]

    def prediction_specs(self) -> Any:
        """Return the specs of a batch of predictions: by output, or that of the only output."""
        specs = self._signature.outputs
        if any(name.endswith("_bytes") for name in specs):  # texts, or {"b64": …}
            return None
        return next(iter(specs.values())) if len(specs) == 1 else specs

    def predict_tensors(self, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for inputs, by their names in the signature."""
        return call_with_tensors(self._predict, columns)

    def _parse(self, index: int, instance: Any) -> dict[str, np.ndarray]:
        specs = self._signature.inputs
        values = instance
        if not isinstance(instance, dict) or (set(instance) == {"b64"} and "b64" not in specs):
            values = dict.fromkeys(specs, instance) if len(specs) == 1 else None
        if values is None or set(values) != set(specs):
            raise InstanceError(f"instance {index}: it must hold {_shown(specs)}")
        try:
            return {name: _array(name, values[name], spec) for name, spec in specs.items()}
        except ValueError as error:
            raise InstanceError(f"instance {index}: {error}") from error


def _specs(tensors: Any, *, what: str, model_dir: str) -> Specs:
    found = {}
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
        found[name] = tf.TensorSpec(shape, tf.as_dtype(info.dtype), name=name)
    return found


def _array(name: str, value: Any, spec: tf.TensorSpec) -> np.ndarray:
    try:
        array = _as_array(value, spec.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from error
    if not spec.shape[1:].is_compatible_with(array.shape):
        raise ValueError(f"{name} has shape {array.shape}, expected {tuple(spec.shape[1:])}")
    return array


def _as_array(value: Any, dtype: tf.DType) -> np.ndarray:
    if dtype == tf.string:
        array = np.asarray(_as_bytes(value), object)
        if not all(isinstance(one, bytes) for one in array.flat):
            raise ValueError("its lists have different lengths")
        return array
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError("its lists have different lengths") from error
    kinds = "b" if dtype == tf.bool else "iu" if dtype.is_integer else "iuf"
    if array.size and array.dtype.kind not in kinds:
        raise ValueError(f"it must hold values of type {dtype.name}")
    if dtype.is_integer and array.size and not dtype.min <= array.min() <= array.max() <= dtype.max:
        raise ValueError(f"it must hold values of type {dtype.name}: {dtype.min} to {dtype.max}")
    return array.astype(dtype.as_numpy_dtype)


def _as_bytes(value: Any) -> Any:
    """Return texts and {"b64": …} as bytes, in lists of the same structure."""
    if isinstance(value, list):
        return [_as_bytes(one) for one in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"its 'b64' is not base64: {error}") from error
    raise ValueError('it must hold texts, or {"b64": …}')


def _stacked(values: list[np.ndarray], name: str) -> np.ndarray:
    for index, value in enumerate(values):
        if value.shape != values[0].shape:
            raise InstanceError(
                f"instance {index}: {name} has shape {value.shape}, and instance 0 "
                f"{values[0].shape}; send them in separate requests"
            )
    return np.stack(values)


def _as_json(name: str, array: np.ndarray) -> list[Any]:
    if array.dtype != object:
        return array.tolist()
    is_binary = name.endswith("_bytes")
    return _texts(array.tolist(), is_binary=is_binary)


def _texts(value: Any, *, is_binary: bool) -> Any:
    if isinstance(value, list):
        return [_texts(one, is_binary=is_binary) for one in value]
    if not is_binary:
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return {"b64": base64.b64encode(value).decode()}


def _shown(specs: Specs) -> str:
    return ", ".join(
        f"{name!r} ({spec.dtype.name} {'?' if spec.shape.rank is None else list(spec.shape[1:])})"
        for name, spec in specs.items()
    )
