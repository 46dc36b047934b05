"""Python source of Keras objects: layers, optimizers, losses, metrics and callbacks."""

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from pipelines.projects.literals import quoted
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText
from trainer.errors import first_line

MOST_INLINE = 40  # items of a list in the source; longer ones are in a file
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
UNLISTED = ("activity_regularizer", "gain")  # of layers and initializers
ADAPTED = ("vocabulary", "idf_weights", "mean", "variance")
Made = Mapping[int, tuple[Any, Sequence[Any], Mapping[str, Any]]]


class Source:
    """Writer of Keras objects as expressions.

    Attributes:
        variables: of the script, and of functions around these.
        own: the names of the script's functions and classes that the expressions use.
        values: long lists, such as vocabularies, which are in a file, by their names.
        learnt: the parts that the script learnt from its data.
    """

    def __init__(self, script: ScriptText, variables: Mapping[str, Any], made: Made):
        self.variables = dict(variables)
        self.own: dict[str, None] = {}
        self.values: dict[str, list[Any]] = {}
        self.learnt: dict[str, None] = {}
        self._script, self._made = script, made

    def of(self, thing: Any) -> str:  # noqa: PLR0911, PLR0912  a case for each type
        """Return the expression of an object, or of a value of a configuration.

        Raises:
            ScriptFault: it has no expression.
        """
        if isinstance(thing, np.ndarray | np.generic) or hasattr(thing, "numpy"):
            return self.of(np.asarray(thing).tolist())
        match thing:
            case float():
                return number(thing)
            case str():
                return quoted(thing)
            case None | bool() | int() | bytes():
                return repr(thing)
            case {"class_name": "__tuple__", "items": items}:
                return self.of(tuple(items))
            case {"class_name": "__numpy__" | "__tensor__", "config": {"value": value}}:
                return self.of(value)
            case {"class_name": "function", "config": name}:
                return self._own_name(name)
            case {"class_name": str(), "config": Mapping()}:
                return self.of(keras.saving.deserialize_keras_object(dict(thing)))
            case Mapping():
                items = (f"{self.of(key)}: {self.of(value)}" for key, value in thing.items())
                return f"{{{', '.join(items)}}}"
            case list():
                return f"[{', '.join(map(self.of, thing))}]"
            case tuple():
                return f"({', '.join(map(self.of, thing))}{',' * (len(thing) == 1)})"
        if callable(getattr(thing, "get_config", None)):
            return self._of_object(thing)
        if callable(thing):
            return self._of_function(thing)
        raise ScriptFault(f"{type(thing).__name__} {thing!r:.60} cannot be written down")

    def _of_object(self, thing: Any) -> str:
        cls = type(thing)
        if cls is keras.layers.Lambda:
            return f"keras.layers.Lambda({self._of_function(thing.function)})"
        parameters = inspect.signature(cls).parameters
        try:
            config = {**thing.get_config(), **self._adapted(thing)}
        except NotImplementedError as error:
            raise ScriptFault(f"{cls.__name__} needs get_config: {first_line(error)}") from error
        config |= _unlisted(thing, parameters, config)
        known = (*config, "dtype")
        lost = [name for name, own in parameters.items() if own.kind in NAMED and name not in known]
        if lost and not public_path(cls):
            raise ScriptFault(f"{cls.__name__} needs a get_config that has {' and '.join(lost)}")
        if getattr(thing, "_exclude_from_weight_decay_pattern", None):
            raise ScriptFault("exclude_from_weight_decay is not taken over: leave it out")
        required = [n for n, p in parameters.items() if p.default is p.empty and n in config]
        words = [self._argument(thing, name, config[name]) for name in required]
        defaults = _default_config(cls, {name: config[name] for name in required})
        for name, value in config.items():
            is_argument = name in parameters or name in ("name", "trainable", "dtype")
            is_same = name in defaults and _is_same(defaults[name], value)
            # The second metric of a class would have another name, which callbacks look for.
            if name == "name" and isinstance(thing, keras.metrics.Metric):
                is_same = False
            elif name == "name":
                is_same = is_same or is_automatic(value, cls)
            elif name == "dtype" and hasattr(thing, "dtype_policy"):
                is_same = thing.dtype_policy.name == "float32"  # whatever the script's default is
            if is_argument and not is_same and name not in required:
                words.append(f"{name}={self._argument(thing, name, value)}")
        return f"{public_path(cls) or self._own_name(cls.__name__)}({', '.join(words)})"

    def as_made(self, thing: Any) -> str:
        """Return the call that made a callback, or a model of a class of the script."""
        _, arguments, named = self._made[id(thing)]
        words = (f"{name}={self.of(value)}" for name, value in named.items() if name != "verbose")
        name = public_path(type(thing)) or self._own_name(type(thing).__name__)
        return f"{name}({', '.join([*map(self.of, arguments), *words])})"

    def _argument(self, thing: Any, name: str, value: Any) -> str:
        if name in ADAPTED and isinstance(value, list | np.ndarray):
            return self.listed(f"{thing.name}.{name}", np.asarray(value).tolist())
        if name == "dtype" and hasattr(thing, "dtype_policy"):
            return quoted(thing.dtype_policy.name)
        live = getattr(thing, name, None)
        if getattr(live, "__name__", "") == "<lambda>":  # which has a configuration of bytes
            return self._of_function(live)
        return self.of(value)

    def listed(self, key: str, values: Sequence[Any]) -> str:
        """Return the expression of a list, which is in the file of values if it is long."""
        if len(values) <= MOST_INLINE:
            return self.of(values)
        self.values[key] = [*values]
        return f"VALUES[{quoted(key)}]"

    def _adapted(self, thing: Any) -> dict[str, Any]:
        """Return arguments for what a layer has learnt."""
        layers = keras.layers
        if isinstance(thing, layers.TextVectorization | layers.StringLookup | layers.IntegerLookup):
            words = list(thing.get_vocabulary(include_special_tokens=False))
            lookup = getattr(thing, "_lookup_layer", thing)
            if not words:
                return {}
            self.learnt[f"{len(words):,} words of {thing.name}"] = None
            if lookup.output_mode != "tf_idf":
                return {"vocabulary": words}
            return {
                "vocabulary": words,
                "idf_weights": np.asarray(lookup.idf_weights)[-len(words) :],
            }
        if isinstance(thing, layers.Normalization) and thing.built and thing.input_mean is None:
            self.learnt[f"means and variances of {thing.name}"] = None
            ends = {"mean": np.ravel(thing.adapt_mean), "variance": np.ravel(thing.adapt_variance)}
            return {name: own if len(own) > 1 else float(own[0]) for name, own in ends.items()}
        if isinstance(thing, layers.Discretization) and thing.num_bins:
            self.learnt[f"bins of {thing.name}"] = None
            return {"num_bins": None}
        return {}

    def _of_function(self, function: Any) -> str:
        if path := public_path(function):
            return path
        name = getattr(function, "__name__", "")
        used = inspect.getclosurevars(function) if inspect.isfunction(function) else None
        self.variables |= used.nonlocals if used else {}
        if used and name == "<lambda>":
            self.own |= dict.fromkeys([*used.globals, *used.nonlocals])
            return self._script.lambda_source(function)
        return self._own_name(name)

    def definitions(self) -> tuple[list[str], list[str]]:
        """Return the imports and the definitions of the script that the expressions use."""
        return self._script.definitions(self.own, self.variables, self.of)

    def _own_name(self, name: str) -> str:
        if name not in self.variables and not self._script.defines(name):
            raise ScriptFault(f"{name or 'a function without a name'} cannot be written down")
        self.own[name] = None
        return name


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


def is_automatic(name: Any, cls: type) -> bool:
    """Return whether Keras made up a name."""
    snake = keras.src.utils.naming.to_snake_case(cls.__name__)
    return name is None or re.fullmatch(rf"{re.escape(snake)}(_\d+)?", name) is not None


def _unlisted(
    thing: Any, parameters: Mapping[str, inspect.Parameter], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments that Keras' own get_config leaves out, unless they are defaults."""
    kept = {name: own for name, own in vars(thing).items() if name in UNLISTED}
    kept |= getattr(thing, "_fn_kwargs", {})
    return {
        name: own
        for name, own in kept.items()
        if name in parameters.keys() - config and not _is_same(parameters[name].default, own)
    }


def _default_config(cls: Any, required: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(cls.from_config(dict(required)).get_config())
    except Exception:  # whatever a class of the user's own raises
        defaults = {arg.name: arg.default for arg in inspect.signature(cls).parameters.values()}
        return {**keras.layers.Layer().get_config(), **defaults}


def _is_same(first: Any, second: Any) -> bool:
    try:
        return bool(np.all(first == second)) and type(first) is type(second)
    except (TypeError, ValueError):
        return False
