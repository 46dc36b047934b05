"""Python source of a Keras model: a line for each layer, in the order of its graph."""

import inspect
import keyword
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from pipelines.projects.literals import quoted
from pipelines.projects.scripts.keras_source import Source, is_automatic
from pipelines.projects.scripts.script_text import ScriptFault


class ModelSource:
    """Writer of models as lines; nested models that are no chain become functions.

    Attributes:
        functions: the source of the functions of nested models.
    """

    def __init__(self, source: Source):
        self._source = source
        self.functions: list[str] = []

    def lines(self, model: Any, inputs: Sequence[str]) -> tuple[list[str], str]:
        """Return the lines that compute a model's outputs, and the expression of these.

        The model is functional or sequential; `inputs` are the expressions of its inputs.

        Raises:
            ScriptFault: a layer cannot be written down.
        """
        graph = getattr(model, "_functional", None) or model
        names = dict(zip(map(id, graph.inputs), inputs, strict=True))
        by_depth = graph._nodes_by_depth
        every = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
        nodes = [node for node in every if not any(id(t) in names for t in node.outputs)]
        uses = Counter(id(node.operation) for node in nodes)
        made: dict[int, str] = {}
        lines: list[str] = []
        taken = {"inputs", "keras", *inputs}
        for node in nodes:
            operation = node.operation
            variable = _variable(operation.name, taken)
            if uses[id(operation)] > 1 and id(operation) not in made:
                made[id(operation)] = f"{variable}_layer"
                lines.append(f"{variable}_layer = {self.layer(operation)}")
            lines.append(f"{variable} = {self._call(node, names, made)}")
            for at, tensor in enumerate(node.outputs):
                names[id(tensor)] = f"{variable}[{at}]" if len(node.outputs) > 1 else variable
        return lines, self._structure(graph._outputs_struct, names)

    def layer(self, layer: Any) -> str:
        """Return the expression of a layer or nested model."""
        if not isinstance(layer, keras.Model):
            return self._source.of(layer)
        if isinstance(layer, keras.Sequential):
            layers = "".join(f"    {self.layer(inner)},\n" for inner in layer.layers)
            name = "" if is_automatic(layer.name, type(layer)) else f", name={quoted(layer.name)}"
            return f"keras.Sequential([\n{layers}]{name})"
        if not hasattr(layer, "_nodes_by_depth"):
            return self._source.as_made(layer)
        function = "make_" + re.sub(r"\W", "_", layer.name)
        inputs = [re.sub(r"\W", "_", tensor.name) for tensor in layer.inputs]
        lines, outputs = self.lines(layer, inputs)
        made = [
            f"{name} = keras.Input({self._source.of(tuple(tensor.shape[1:]))}, "
            f"name={quoted(tensor.name)}, dtype={quoted(tensor.dtype)})"
            for name, tensor in zip(inputs, layer.inputs, strict=True)
        ]
        arguments = inputs[0] if len(inputs) == 1 else f"[{', '.join(inputs)}]"
        end = f"return keras.Model({arguments}, {outputs}, name={quoted(layer.name)})"
        body = textwrap.indent("\n".join([*made, *lines, end]), "    ")
        self.functions.append(f"def {function}():\n{body}")
        return f"{function}()"

    def _call(self, node: Any, names: Mapping[int, str], made: Mapping[int, str]) -> str:
        operation, kind = node.operation, type(node.operation).__name__
        if kind == "GetItem":
            tensor, index = node.arguments.args
            return f"{names[id(tensor)]}[{_index(index)}]"
        words = [self._structure(argument, names) for argument in node.arguments.args]
        words += [
            f"{key}={self._structure(argument, names)}"
            for key, argument in node.arguments.kwargs.items()
            # Keras adds training=False itself.
            if argument is not None and (key, argument) != ("training", False)
        ]
        if isinstance(operation, keras.layers.Layer):
            layer = made.get(id(operation)) or self.layer(operation)
            plain = layer.replace("num_oov_indices=0", "num_oov_indices=1")
            call = f"{plain}({', '.join(words)})"
            # Without a number for unknown values a lookup fails on a request that has one.
            if plain == layer:
                return call
            is_number = operation.output_mode == "int"
            return f"keras.ops.maximum({call} - 1, 0)" if is_number else f"{call}[:, 1:]"
        snake = keras.src.utils.naming.to_snake_case(kind)
        function = getattr(keras.ops, snake, None)
        if function is None:
            raise ScriptFault(f"the operation {kind} cannot be written down")
        parameters = inspect.signature(function).parameters
        settings = operation._auto_config.config if operation._auto_config else {}
        words += [
            f"{key}={self._source.of(value)}"
            for key, value in settings.items()
            if key in parameters and parameters[key].default != value
        ]
        return f"keras.ops.{snake}({', '.join(words)})"

    def _structure(self, thing: Any, names: Mapping[int, str]) -> str:
        if isinstance(thing, keras.KerasTensor):
            return names[id(thing)]
        if isinstance(thing, list | tuple):
            items = ", ".join(self._structure(item, names) for item in thing)
            return f"[{items}]" if isinstance(thing, list) else f"({items},)"
        if isinstance(thing, dict):
            pairs = [f"{quoted(key)}: {self._structure(own, names)}" for key, own in thing.items()]
            return f"{{{', '.join(pairs)}}}"
        return self._source.of(thing)


def _variable(name: str, taken: set[str]) -> str:
    made = re.sub(r"\W|^(?=\d)", "_", name)
    while made in taken or keyword.iskeyword(made):
        made += "_"
    taken |= {made, f"{made}_layer"}
    return made


def _index(key: Any) -> str:
    """Return the source of an index, such as `:, 1:`."""
    if isinstance(key, tuple):
        return ", ".join(map(_index, key))
    if not isinstance(key, slice):
        return "..." if key is ... else repr(key)
    ends = ["" if end is None else repr(end) for end in (key.start, key.stop)]
    return ":".join([*ends, *([repr(key.step)] if key.step is not None else [])])
