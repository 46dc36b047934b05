"""Python source of Keras objects and models: each as the call that made it."""

import ast
import builtins
import dis
import functools
import inspect
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, EllipsisType
from typing import Any

import keras
import numpy as np

from pipelines.projects.literals import SourceText, comment, quoted
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText

WIDTH = 80  # of a line, before its indent
MOST_INLINE = 40  # items of a list in the source; longer ones are in a file
LOOKUPS = keras.layers.TextVectorization | keras.layers.StringLookup | keras.layers.IntegerLookup
KEPT = (
    *(keras.Operation, keras.Model, keras.Metric, keras.Loss, keras.Optimizer, keras.Initializer),
    *(keras.optimizers.schedules.LearningRateSchedule, keras.callbacks.Callback),
    *(keras.Regularizer, keras.constraints.Constraint, keras.DTypePolicy),
    keras.random.SeedGenerator,
)


@functools.cache
def keep_arguments() -> None:
    """Have the objects of Keras' classes keep the arguments that made them."""

    def keep(kept: Any) -> None:
        make = kept.__new__

        def new(cls: Any, *arguments: Any, **named: Any) -> Any:
            made = make(cls) if make is object.__new__ else make(cls, *arguments, **named)
            vars(made)["_made_by"] = arguments, named
            return made

        kept.__new__ = new

    for kept in KEPT:  # models after layers, whose arguments Keras omits for models
        keep(kept)


class Writer:
    """Writer of Keras objects as expressions.

    Attributes:
        values: long lists, such as vocabularies, which are in a file, by their names.
        learnt: the parts that the script learnt from its data.
        written: the identities of weights that are arguments of their layers.
        variables: of the script, and of functions around these.
    """

    def __init__(self, script: ScriptText, variables: Mapping[str, Any]):
        self.variables = dict(variables)
        self.values: dict[str, Any] = {}
        self.learnt: dict[str, None] = {}
        self.written: set[int] = set()
        self._script = script
        self._defined: dict[str, str] = {}
        self._models: list[str] = []
        self._tensors: dict[int, str] = {}

    def of(self, thing: Any) -> str:  # noqa: PLR0911, PLR0912  a case for each type
        """Return the expression of an object, or of a value of a configuration.

        Raises:
            ScriptFault: it has no expression.
        """
        if isinstance(thing, np.ndarray | np.generic) or hasattr(thing, "numpy"):
            thing = np.asarray(thing).tolist()
        match thing:
            case keras.KerasTensor():
                return self._tensors[id(thing)]
            case float():
                return number(thing)
            case SourceText():
                return thing
            case str():
                return quoted(thing)
            case None | bool() | int() | bytes() | slice() | EllipsisType():
                return repr(thing)
            case {"class_name": str()}:
                return self.of(keras.saving.deserialize_keras_object(dict(thing)))
            case Mapping():
                items = [f"{self.of(key)}: {self.of(value)}" for key, value in thing.items()]
                return joined("{", items, "}")
            case list():
                return joined("[", [*map(self.of, thing)], "]")
            case tuple():
                return f"({', '.join(map(self.of, thing))}{',' * (len(thing) == 1)})"
            case keras.Sequential():
                return f"keras.Sequential({self.of(thing.layers)})"
        if hasattr(thing, "_nodes_by_depth"):
            return self._of_graph(thing)
        if hasattr(thing, "_made_by"):
            return self._of_object(thing)
        if callable(thing):
            return public_path(thing) or self._of_function(thing)
        raise ScriptFault(f"{type(thing).__name__} {thing!r:.60} cannot be written down")

    def _of_object(self, thing: Any) -> str:
        cls, (arguments, named) = type(thing), thing._made_by
        if getattr(thing, "_exclude_from_weight_decay_pattern", None):
            raise ScriptFault("exclude_from_weight_decay is not taken over: leave it out")
        known = inspect.signature(cls.__init__).parameters
        named = dict(zip([*known][1:], arguments, strict=False)) | named
        named |= _changed(thing) | self._learnt(thing)
        if isinstance(thing, keras.layers.Embedding):
            named.pop("weights", None)  # the file of weights has them
        if isinstance(thing, keras.Metric) and {"name", "kwargs"} & known.keys():
            named["name"] = thing.name  # the second of a class has another, as callbacks have it
        owner = getattr(thing, "name", cls.__name__)
        words = [
            f"{name}={self.listed(f'{owner}.{name}', value)}"
            for name, value in named.items()
            if name not in known or repr(value) != repr(known[name].default)
        ]
        return joined(f"{public_path(cls) or self._own(cls.__name__)}(", words, ")")

    def listed(self, key: str, value: Any) -> str:
        """Return the expression of a value, which is in the file of values if it is a long list."""
        value = value.tolist() if isinstance(value, np.ndarray) else value
        items = keras.tree.flatten(value)
        if len(items) > MOST_INLINE and all(isinstance(own, str | int | float) for own in items):
            self.values[key] = value
            return f"VALUES[{quoted(key)}]"
        return self.of(value)

    def _learnt(self, thing: Any) -> dict[str, Any]:
        """Return arguments for what a layer has learnt."""
        learnt: dict[str, Any] = {}
        if isinstance(thing, LOOKUPS):
            words = np.asarray(thing.get_vocabulary(include_special_tokens=False)).tolist()
            lookup = getattr(thing, "_lookup_layer", thing)
            if words:
                learnt["vocabulary"] = words
            if getattr(lookup, "num_oov_indices", 1) == 0:
                self.learnt[f"no other text than those of {thing.name}"] = None
            if words and lookup.output_mode == "tf_idf":
                learnt["idf_weights"] = np.asarray(lookup.idf_weights)[-len(words) :].tolist()
        if isinstance(thing, keras.layers.Normalization) and thing.input_mean is None:
            for name in ("mean", "variance"):
                values = np.ravel(getattr(thing, f"adapt_{name}")).tolist()
                learnt[name] = values if len(values) > 1 else values[0]
        if isinstance(thing, keras.layers.Discretization) and thing.num_bins:
            learnt["num_bins"] = None  # there are boundaries now
        for name in learnt:
            self.learnt[f"{name} of {thing.name}"] = None
            self.written |= {id(weight) for weight in thing.weights}
        return learnt

    def _of_graph(self, model: Any) -> str:
        """Return the call of a function that makes a functional model."""
        lines = []
        for at, tensor in enumerate(model.inputs, 1):
            shape, name, kind = tensor.shape[1:], quoted(tensor.name), quoted(tensor.dtype)
            lines.append(f"input{at} = keras.Input({shape}, name={name}, dtype={kind})")
            self._tensors[id(tensor)] = f"input{at}"
        by_depth = sorted(model._nodes_by_depth.items(), reverse=True)
        nodes = [node for _, level in by_depth for node in level if not node.is_input]
        shared: dict[int, str] = {}
        for at, node in enumerate(nodes, 1):
            operation, named = node.operation, node.arguments.kwargs
            if id(operation) in shared:
                function = shared[id(operation)]
            elif isinstance(operation, keras.layers.Layer):
                function = self.of(operation)
                if len(operation._inbound_nodes) > 1:
                    lines.append(f"layer{at} = {function}")
                    function = shared[id(operation)] = f"layer{at}"
            else:
                function, settings = _operator(operation)
                named = named | settings
            words = [
                f"{name}={self.of(value)}"
                for name, value in named.items()
                if name != "training" and value is not None  # which fit and predict decide
            ]
            words = [*map(self.of, node.arguments.args), *words]
            lines.append(joined(f"x{at} = {function}(", words, ")"))
            for index, tensor in enumerate(node.outputs):
                is_one = len(node.outputs) == 1
                self._tensors[id(tensor)] = f"x{at}" if is_one else f"x{at}[{index}]"
        ends = [self.of(model._inputs_struct), self.of(model._outputs_struct)]
        lines.append(joined("return keras.Model(", ends, ")"))
        function = f"make_model_{len(self._models) + 1}"
        body = textwrap.indent("\n".join(lines), "    ")
        self._models.append(f"def {function}():\n{body}")
        return f"{function}()"

    def definitions(self) -> tuple[list[str], list[str]]:
        """Return the imports and the definitions of the script that the expressions use."""
        texts = dict.fromkeys(self._defined.values())
        imports = [text for text in texts if text.startswith(("import ", "from "))]
        return imports, [*(text for text in texts if text not in imports), *self._models]

    def _of_function(self, function: Any) -> str:
        if not inspect.isfunction(function):
            return self._own(getattr(function, "__name__", ""))
        self.variables |= inspect.getclosurevars(function).nonlocals
        if function.__name__ != "<lambda>":
            return self._own(function.__name__)
        line = function.__code__.co_firstlineno
        nodes = [n for n in self._script.nodes if isinstance(n, ast.Lambda) and n.lineno == line]
        if len(nodes) != 1:
            raise ScriptFault("write this lambda as a function with a name", line=line)
        self._define_used(compile(ast.Expression(nodes[0]), "<script>", "eval"))
        return " ".join((ast.get_source_segment(self._script.text, nodes[0]) or "").split())

    def _define_used(self, code: CodeType) -> None:
        """Define all that a function or class uses of the script."""
        for name in _global_names(code):
            is_value = name in self.variables and not hasattr(builtins, name)
            if name in self._script.defined or is_value:
                self._own(name)

    def _own(self, name: str) -> str:
        """Return a name of the script, after defining it.

        Raises:
            ScriptFault: it is a variable whose value has no source.
        """
        if name in self._defined:
            return name
        self._defined[name] = ""
        node = self._script.defined.get(name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            text = ast.unparse(node)
        elif node:
            self._define_used(compile(ast.Module([node], []), "<script>", "exec"))
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines = self._script.text.splitlines()[first - 1 : node.end_lineno]
            text = f"# Line {first} of {comment(self._script.path.name)}.\n"
            text += textwrap.dedent("\n".join(lines))
        elif name in self.variables:
            try:
                text = f"{name} = {self.of(self.variables[name])}"
            except ScriptFault as fault:
                told = f"{name} is used by a function that is taken over, but {fault}"
                raise ScriptFault(f"{told}: make it in the function") from fault
        else:
            raise ScriptFault(f"{name or 'a function without a name'} cannot be written down")
        del self._defined[name]  # after what it uses
        self._defined[name] = text
        return name


def _changed(thing: Any) -> dict[str, Any]:
    """Return the settings that were changed since an object was made, such as `trainable`."""
    arguments, named = thing._made_by
    known = {"trainable", "dtype", *inspect.signature(type(thing).__init__).parameters} - {"name"}
    try:
        first, now = (
            made.get_config() if hasattr(made, "get_config") else vars(made)  # of a callback
            for made in (type(thing)(*arguments, **named), thing)
        )
    except Exception:  # a class of the script's own, without a configuration
        return {}
    return {n: own for n, own in now.items() if n in known and repr(own) != repr(first.get(n))}


def _operator(operation: Any) -> tuple[str, dict[str, Any]]:
    """Return the function of an operation, and its arguments besides tensors."""
    kind = type(operation).__name__
    snake = keras.src.utils.naming.to_snake_case(kind)
    function = getattr(keras.ops, snake, None)
    if function is None:
        raise ScriptFault(f"the operation {kind} cannot be written down")
    arguments, named = operation._made_by
    made = inspect.signature(type(operation).__init__).bind(operation, *arguments, **named)
    known = inspect.signature(function).parameters
    settings = {n: v for n, v in made.arguments.items() if n in known and v != known[n].default}
    return f"keras.ops.{snake}", settings


def _global_names(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)
        elif isinstance(step.argval, CodeType):
            yield from _global_names(step.argval)


def joined(start: str, items: Sequence[str], end: str) -> str:
    """Return an expression of items, each in a line of its own if one line would be too long."""
    line = f"{start}{', '.join(items)}{end}"
    if len(line) <= WIDTH:
        return line
    inner = textwrap.indent(",\n".join(items), "    ")
    return f"{start}\n{inner},\n{end}"


def number(value: float) -> str:
    """Return a number as short as its float32 has it."""
    if not math.isfinite(value):
        return f'float("{value}")'
    short = float(str(np.float32(value)))
    return repr(short if np.float32(value) == value else value)


def public_path(thing: Any) -> str:
    """Return the path of a class or function in keras, such as `keras.layers.Dense`; else ""."""
    # A subclass of the user's own inherits the attribute.
    paths = getattr(thing, "__dict__", {}).get("_api_export_path", ())
    paths = [paths] if isinstance(paths, str) else paths
    public = [path for path in paths if re.match(r"keras\.[^_]", path)]
    return max(public, key=lambda path: "losses" in path, default="")  # or a metric, too
