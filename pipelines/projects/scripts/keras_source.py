"""Python source of Keras objects: layers, optimizers, losses, metrics and callbacks."""

import inspect
import itertools
import math
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from pipelines.projects.literals import quoted
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText

# Layers of FeatureSpace, by the public layers that do the same.
PRIVATE = {"TFDConcat": "keras.layers.Concatenate", "TFDIdentity": "keras.layers.Identity"}
_MOST_INLINE = 40  # items of a vocabulary in the source; longer ones are in a file
_STATIC = ("name", "trainable", "dtype", "batch_input_shape", "build_config")


class Source:
    """Writer of Keras objects as expressions.

    Attributes:
        own: the names of the script's functions and classes that the expressions use.
        variables: of the script, and of functions around these.
        values: long lists, such as vocabularies, by the name of a layer: those are in a file.
    """

    def __init__(self, script: ScriptText, variables: Mapping[str, Any]):
        self.own: dict[str, None] = {}
        self.values: dict[str, list[Any]] = {}
        self.variables = dict(variables)
        self.script = script

    def of(self, thing: Any) -> str:
        """Return the expression of an object, or of a value of a configuration.

        Raises:
            ScriptFault: it has no expression.
        """
        if isinstance(thing, np.ndarray | np.generic) or hasattr(thing, "numpy"):
            return self.of(np.asarray(thing).tolist())
        if thing is None or isinstance(thing, bool | int | str | bytes | float | type(Ellipsis)):
            return plain(thing)
        if isinstance(thing, list | tuple | slice | Mapping):
            return self._of_structure(thing)
        if callable(getattr(thing, "get_config", None)):
            return self._of_object(thing)
        if callable(thing):
            return self._of_function(thing)
        raise ScriptFault(f"{type(thing).__name__} {thing!r:.60} cannot be written down")

    def _of_structure(self, thing: Any) -> str:
        if isinstance(thing, Mapping):
            return self._of_mapping(thing)
        if isinstance(thing, slice):
            return f"slice({', '.join(map(self.of, (thing.start, thing.stop, thing.step)))})"
        items = ", ".join(map(self.of, thing))
        is_single = isinstance(thing, tuple) and len(thing) == 1
        return f"[{items}]" if isinstance(thing, list) else f"({items}{',' * is_single})"

    def _of_mapping(self, content: Mapping[str, Any]) -> str:
        match content:
            case {"class_name": "__tuple__", "items": items}:
                return self.of(tuple(items))
            case {"class_name": "__numpy__" | "__tensor__", "config": {"value": value}}:
                return self.of(value)
            case {"class_name": "function", "config": name}:
                return self._own_name(name)
            case {"class_name": str(), "config": Mapping()}:
                return self.of(keras.saving.deserialize_keras_object(dict(content)))
        items = (f"{self.of(key)}: {self.of(value)}" for key, value in content.items())
        return f"{{{', '.join(items)}}}"

    def _of_object(self, thing: Any) -> str:
        cls = type(thing)
        if isinstance(thing, keras.Model) and not isinstance(thing, keras.Sequential):
            raise ScriptFault(f"the model {thing.name} cannot be written as an expression")
        if cls is keras.layers.Lambda:
            return f"keras.layers.Lambda({self._of_function(thing.function)})"
        if path := PRIVATE.get(cls.__name__) or public_path(cls):
            return f"{path}({', '.join(self._arguments(thing, cls))})"
        name = self._own_name(cls.__name__)
        try:
            return f"{name}({', '.join(self._arguments(thing, cls))})"
        except NotImplementedError:
            return f"{name}({self.script.arguments_of(name, self.variables)})"

    def _arguments(self, thing: Any, cls: type) -> list[str]:
        config = {**config_of(thing), **self._adapted(thing)}
        names = _parameters(cls)
        required = {
            name: _live(thing, name, config) for name in names if names[name] and name in config
        }
        defaults = _default_config(cls, required)
        shown: dict[str, str] = {}
        for name, value in config.items():
            if name not in names and name not in _STATIC:
                continue
            # The second metric of a class would have another name, which callbacks look for.
            is_metric = isinstance(thing, keras.metrics.Metric)
            is_named = name == "name" and is_automatic(value, cls)
            if is_named and not is_metric:
                continue
            if (
                not is_named
                and not names.get(name)
                and name in defaults
                and _is_same(defaults[name], value)
            ):
                continue
            shown[name] = self._argument(thing, name, _live(thing, name, config))
        # As people write: those that are required, by their place.
        first = list(itertools.takewhile(lambda name: names[name] and name in shown, names))
        more = [f"{name}={value}" for name, value in shown.items() if name not in first]
        return [*(shown[name] for name in first), *more]

    def _argument(self, thing: Any, name: str, value: Any) -> str:
        if name in ("vocabulary", "idf_weights") and len(value) > _MOST_INLINE:
            key = f"{thing.name}.{name}"
            self.values[key] = np.asarray(value).tolist()
            return f"VALUES[{quoted(key)}]"
        if name == "dtype" and hasattr(thing, "dtype_policy"):
            value = thing.dtype_policy.name
        return self.of(value)

    def _adapted(self, thing: Any) -> dict[str, Any]:
        layers = keras.layers
        if isinstance(thing, layers.TextVectorization | layers.StringLookup | layers.IntegerLookup):
            words = list(thing.get_vocabulary(include_special_tokens=False))
            lookup = getattr(thing, "_lookup_layer", thing)
            has_weights = lookup.output_mode == "tf_idf" and words
            weights = (
                {"idf_weights": np.asarray(lookup.idf_weights)[-len(words) :]}
                if has_weights
                else {}
            )
            return {"vocabulary": words, **weights} if words else {}
        if isinstance(thing, layers.Normalization) and thing.input_mean is None:
            if not thing.built:
                return {}
            mean, variance = np.ravel(thing.mean), np.ravel(thing.variance)
            single = len(mean) == 1
            return {
                "mean": float(mean[0]) if single else mean,
                "variance": float(variance[0]) if single else variance,
            }
        if isinstance(thing, layers.Discretization):
            return {"num_bins": None} if thing.bin_boundaries is not None else {}
        return {}

    def _of_function(self, function: Any) -> str:
        path = public_path(function)
        if path:
            return path
        name = getattr(function, "__name__", "")
        if name == "<lambda>":
            return self.script.lambda_source(function)
        if (
            closure := inspect.getclosurevars(function).nonlocals
            if inspect.isfunction(function)
            else {}
        ):
            self.variables |= closure
        return self._own_name(name)

    def definitions(self) -> tuple[list[str], list[str]]:
        """Return the imports and the definitions of the script that the expressions use."""
        return self.script.definitions(self.own, self.variables, self.of)

    def _own_name(self, name: str) -> str:
        if not name.isidentifier():
            raise ScriptFault(f"{name or 'a function without a name'} cannot be written down")
        self.own[name] = None
        return name


def plain(value: Any) -> str:
    """Return a value that has no parts as source."""
    if isinstance(value, str):
        return quoted(value)
    return number(value) if isinstance(value, float) else repr(value)


def number(value: float) -> str:
    """Return a number as short as its float32 has it."""
    if math.isnan(value) or math.isinf(value):
        return f'float("{value}")'
    short = float(str(np.float32(value)))
    return repr(short if np.float32(value) == value else value)


def public_path(thing: Any) -> str:
    """Return the path of a class or function in keras, such as `keras.layers.Dense`; else ""."""
    # A subclass of the user's own inherits the attribute.
    paths = vars(thing).get("_api_export_path", ()) if hasattr(thing, "__dict__") else ()
    paths = [paths] if isinstance(paths, str) else list(paths)
    public = [path for path in paths if re.match(r"keras\.(?!_|Operation$)", path)]
    # A function may be a loss and a metric.
    return max(public, key=lambda path: path.startswith("keras.losses"), default="")


def config_of(thing: Any) -> dict[str, Any]:
    """Return an object's configuration; of a layer that has none, its first arguments."""
    try:
        return dict(thing.get_config())
    except NotImplementedError:
        made = getattr(thing, "_auto_config", None)
        if made is None:
            raise
        return dict(made.config)


def is_automatic(name: Any, cls: type) -> bool:
    """Return whether Keras made up a name."""
    if not isinstance(name, str):
        return name is None
    snake = keras.src.utils.naming.to_snake_case(cls.__name__)
    return re.fullmatch(rf"{re.escape(snake)}(_\d+)?", name) is not None


def _parameters(cls: Any) -> dict[str, bool]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        arg.name: arg.default is inspect.Parameter.empty
        for arg in inspect.signature(cls).parameters.values()
        if arg.kind in kinds
    }


def _live(thing: Any, name: str, config: Mapping[str, Any]) -> Any:
    value = config[name]
    if isinstance(value, Mapping) and "class_name" in value and name in ("layer", "cell", "cells"):
        return keras.saving.deserialize_keras_object(dict(value))
    return value


def _default_config(cls: Any, required: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return config_of(cls(**required))
    except Exception:  # whatever a class of the user's own raises
        defaults = {arg.name: arg.default for arg in inspect.signature(cls).parameters.values()}
        return {**keras.layers.Layer().get_config(), **defaults}


def _is_same(first: Any, second: Any) -> bool:
    try:
        return bool(np.all(first == second)) and type(first) is type(second)
    except (TypeError, ValueError):
        return False
