"""The inputs of a recorded model, in the structure in which `fit` got them, and its weights."""

import json
from collections.abc import Sequence
from typing import Any

import keras

from pipelines.projects.scripts.faults import ScriptFault
from pipelines.projects.scripts.rows import RecordedInput, RecordedRows


def inputs_of(model: Any, rows: RecordedRows) -> list[tuple[RecordedInput, Any]]:
    """Return the recorded inputs that a model takes, in its order, each with its Keras tensor."""
    known = getattr(model, "inputs", None)
    if not known:
        return [(one, _tensor_like(one)) for one in rows.inputs]
    if rows.kind != "dict":
        return list(zip(rows.inputs, known, strict=True))
    struct = getattr(model, "_inputs_struct", None)
    names = (
        {id(tensor): name for name, tensor in struct.items()} if isinstance(struct, dict) else {}
    )
    by_name = {one.name: one for one in rows.inputs}
    return [(by_name[names.get(id(one), one.name)], one) for one in known]


def _tensor_like(one: RecordedInput) -> Any:
    dtype = "string" if one.values.dtype.kind == "O" else one.values.dtype.name
    return keras.KerasTensor((None, *one.values.shape[1:]), dtype)


def as_given(rows: RecordedRows, which: Any) -> Any:
    """Return some rows in the structure in which `fit` got them."""
    arrays = [
        keras.ops.convert_to_tensor(
            one.values[which].astype(str) if one.values.dtype.kind == "O" else one.values[which]
        )
        for one in rows.inputs
    ]
    if rows.kind == "dict":
        return {one.name: array for one, array in zip(rows.inputs, arrays, strict=True)}
    return arrays if rows.kind == "list" else arrays[0]


def given_source(rows: RecordedRows, expressions: Sequence[str]) -> str:
    """Return the expression of inputs in the structure in which `fit` got them."""
    if rows.kind == "dict":
        items = ", ".join(
            f"{json.dumps(one.name)}: {expression}"
            for one, expression in zip(rows.inputs, expressions, strict=True)
        )
        return f"{{{items}}}"
    return f"[{', '.join(expressions)}]" if rows.kind == "list" else expressions[0]


def copy_weights(source: Any, target: Any) -> None:
    """Give a model the weights of another, those of adapted layers excepted."""
    pairs = [_own_variables(source), _own_variables(target)]
    if [tuple(one.shape) for one in pairs[0]] != [tuple(one.shape) for one in pairs[1]]:
        raise ScriptFault("the layers that would be written have other weights than its model")
    for own, variable in zip(*pairs, strict=True):
        variable.assign(own.value)


def _own_variables(model: Any) -> list[Any]:
    adapted = {
        id(variable)
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Normalization)
        for variable in layer.variables
    }
    return [one for one in model.weights if id(one) not in adapted]
