"""The function of a user's script that builds a Keras model; the script is read, never imported."""

import ast
import textwrap
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from components.shared.text.user_file import read_text_file
from pipelines.projects.scripts.wrap import wrapped
from pipelines.projects.starter.script_fit import ReadFit, read_fit

MODELS = ("Sequential", "Model")
INPUTS = ("inputs", "input", "x")
WIDTH = 96  # of a line of the workload's arguments
DEFAULT_BATCH = 32  # of fit
# Arguments without a default that are known from the data.
KNOWN = {
    **dict.fromkeys(("num_classes", "n_classes", "classes", "num_labels"), "len(labels)"),
    **dict.fromkeys(("input_shape", "shape"), "tuple(combined.shape[1:])"),
    **dict.fromkeys(("input_dim", "num_features", "n_features"), "combined.shape[-1]"),
}
DIRECT = """
model = {module}.{name}
"""
ADAPTER = '''

def model(inputs, *, labels{settings}):
    """Return the model of {file} for these inputs, compiled as it is."""
{before}    own = {module}.{name}({arguments})
{after}    found = keras.Model(inputs, own({given}))
    if own.compiled:
        compiled = {{**own.get_compile_config(), "optimizer": None, "loss": None}}
        compiled = keras.saving.deserialize_keras_object(compiled)
        found.compile(**{{**compiled, "optimizer": own.optimizer, "loss": own.loss}})
    return found

'''
BY_NAME = """\
    given = {}
    for one in own.inputs:
        values = inputs[one.name]
        values = values if one.dtype == "string" else keras.ops.cast(values, one.dtype)
        given[one.name] = keras.ops.reshape(values, (-1, *one.shape[1:]))
"""


@dataclass(frozen=True)
class RunScript:
    """A script that trains while it is executed: it is run up to its first `fit`."""

    path: Path


@dataclass(frozen=True)
class Script:
    """A script that builds a Keras model in a function."""

    path: Path
    function: ast.FunctionDef
    shape: tuple[int, int, int] | None = None
    """Height, width and channels of the images that it takes, if it says so."""
    fit: ReadFit = field(default_factory=ReadFit)
    is_raw: bool = False
    """The model gets the file's own values, or pixels from 0 to 255."""
    is_by_name: bool = False
    """The model has an input for each column, of its name."""
    others: tuple[str, ...] = ()
    """Further functions that build models."""

    @property
    def module(self) -> str:
        """The name of the script's copy as a module."""
        return self.path.stem

    @property
    def files(self) -> Mapping[str, str]:
        """The copy of the script, by name."""
        return {self.path.name: self.path.read_text(encoding="utf-8")}

    @property
    def takes_inputs(self) -> bool:
        """True if the function takes Keras inputs, as a workload's model does."""
        return bool(self._positional) and self._positional[0].arg in INPUTS

    @property
    def combines(self) -> bool:
        """True if the adapter calls `combine`."""
        return not (self.takes_inputs or self.is_by_name)

    @property
    def imports(self) -> list[str]:
        """The imports of the adapter."""
        return [
            *([] if self.takes_inputs else ["import keras", ""]),
            f"from . import {self.module}",
        ]

    def adapter(self, combined: str) -> str:
        """Return the source that defines `model`.

        Args:
            combined: an expression of all inputs as one tensor.

        Raises:
            DataError: an argument of the function is not known.
        """
        if self.takes_inputs:
            return DIRECT.format(module=self.module, name=self.function.name)
        arguments = [f"{name}={KNOWN[name]}" for name in self._required]
        settings = [f"{one}={ast.unparse(value)}" for one, value in self._optional]
        return ADAPTER.format(
            before="" if self.is_by_name else f"    combined = {combined}\n",
            after=BY_NAME if self.is_by_name else "",
            given="given" if self.is_by_name else "combined",
            settings="".join(f", {setting}" for setting in settings),
            file=self.path.name,
            module=self.module,
            name=self.function.name,
            arguments=", ".join([*arguments, *(f"{one}={one}" for one, _ in self._optional)]),
        )

    @property
    def arguments(self) -> list[str]:
        """The further arguments of the workload."""
        callbacks = wrapped(f"callbacks={self.fit.callbacks},  # fit, line {self.fit.line}", WIDTH)
        return [
            *(["    raw_inputs=True,"] if self.is_raw else []),
            *([textwrap.indent(callbacks, "    ")] if self.fit.callbacks else []),
        ]

    @property
    def train(self) -> Mapping[str, int]:
        """The settings of the training, if the script has them."""
        given = self.fit.train
        return {"batch_size": DEFAULT_BATCH, **given} if "epochs" in given else {}

    @property
    def notes(self) -> list[str]:
        """Notes on the parts of the script that are left out, a line each."""
        notes = [f"{self.path.name}: {note}" for note in self.fit.notes]
        if self.others:
            notes.append(
                f"{self.path.name} has several functions that build a model: {self.function.name}"
                f" is taken, not {', '.join(self.others)}; to change it, change workload.py"
            )
        return notes

    @property
    def scales_pixels(self) -> bool:
        """True if the script has a layer or function that takes pixels from 0 to 255."""
        text = self.files[self.path.name]
        return any(f"{name}(" in text for name in ("Rescaling", "preprocess_input"))

    @cached_property
    def named_inputs(self) -> Mapping[str, bool]:
        """The names of the model's inputs, each with whether it takes texts; {} if one has none."""
        named = {}
        for call in ast.walk(self.function):
            if not isinstance(call, ast.Call) or _called(call) != "Input":
                continue
            literals = {one.arg: getattr(one.value, "value", None) for one in call.keywords}
            named[literals.get("name")] = literals.get("dtype") == "string"
        return {} if None in named else {str(name): is_text for name, is_text in named.items()}

    @property
    def remarks(self) -> list[str]:
        """Lines about the script for the head of workload.py."""
        return []

    @cached_property
    def _positional(self) -> list[ast.arg]:
        return [*self.function.args.posonlyargs, *self.function.args.args]

    @cached_property
    def _required(self) -> list[str]:
        """The arguments without a default."""
        given = self.function.args
        count = len(self._positional) - len(given.defaults)
        names = [one.arg for one in self._positional[:count]]
        pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
        names += [one.arg for one, default in pairs if default is None]
        unknown = [name for name in names if name not in KNOWN]
        if unknown:
            raise DataError(
                f"{self.path}:{self.function.lineno}: {self.function.name} needs the argument"
                f" {unknown[0]!r}: give it a default, or call the first one inputs: the Keras"
                " inputs of the workload"
            )
        return names

    @cached_property
    def _optional(self) -> list[tuple[str, ast.expr]]:
        """The arguments with a default that is a plain value: settings of the model."""
        given = self.function.args
        plain = self._positional[len(self._positional) - len(given.defaults) :]
        pairs = [*zip(plain, given.defaults, strict=True)]
        keyword = zip(given.kwonlyargs, given.kw_defaults, strict=True)
        pairs += [(one, default) for one, default in keyword if default is not None]
        return [(one.arg, value) for one, value in pairs if isinstance(value, ast.Constant)]


def read_script(path: Path) -> Script | RunScript:
    """Return the script's function that builds a model; a script without one is to be run.

    Raises:
        DataError: it is not Python, or neither has such a function nor calls fit; names the line.
    """
    try:
        tree = ast.parse(read_text_file(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 1)
        raise DataError(f"{path}:{line}: it is not Python: {error}") from error
    models = _model_names(tree)
    functions = [
        one for one in tree.body if isinstance(one, ast.FunctionDef) and _builds(one, models)
    ]
    trains = any(_called(node) == "fit" for node in _executed(tree.body))
    if trains or (not functions and any(_called(node) == "fit" for node in ast.walk(tree))):
        return RunScript(path)
    if not path.stem.isidentifier() or path.stem == "workload":
        raise DataError(f"{path}: it is imported as a module: give it another name, as my_model.py")
    if not functions:
        raise DataError(_describe_missing(path, tree, models))
    named = [one for one in functions if "model" in one.name.lower()]
    chosen = (named or functions)[0]
    others = tuple(one.name for one in functions if one is not chosen)
    return Script(path, chosen, _shape(tree), read_fit(tree, path.stem), others=others)


def _model_names(tree: ast.Module) -> set[str]:
    """Return the names of Keras' models, and of the file's own subclasses of them."""
    names = set(MODELS)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = {getattr(one, "attr", getattr(one, "id", "")) for one in node.bases}
            names |= {node.name} if bases & names else set()
    return names


def _executed(body: list[ast.stmt]) -> Iterator[Any]:
    """Yield all nodes that are executed when a module is imported."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            continue
        yield from ast.walk(statement)


def _called(node: Any) -> str:
    """Return the name of the function that a node calls, "" if it calls none."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def _builds(function: ast.FunctionDef, models: Container[str]) -> bool:
    nodes = list(ast.walk(function))
    returns = any(isinstance(one, ast.Return) and one.value is not None for one in nodes)
    return returns and any(_called(node) in models for node in nodes)


def _describe_missing(path: Path, tree: ast.Module, models: Container[str]) -> str:
    for node in _executed(tree.body):
        if _called(node) in models:
            return (
                f"{path}:{node.lineno}: the model is built while the file is imported; build it in"
                " a function that returns it, such as `def build_model(): …`"
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _builds(node, models):
            return (
                f"{path}:{node.lineno}: {node.name} is inside another function or a class, where"
                " workload.py cannot call it; move it to the top level of the file"
            )
    return (
        f"{path}: no function returns a keras.Sequential, a keras.Model or a subclass of it; write"
        " one"
    )


def _shape(tree: ast.Module) -> tuple[int, int, int] | None:
    """Return the first shape of an image in a call, such as `keras.Input((SIZE, SIZE, 1))`."""
    values = _constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = [
            *(("", one) for one in node.args),
            *((one.arg, one.value) for one in node.keywords),
        ]
        for name, value in given:
            if "Input" not in _called(node) and name != "input_shape":
                continue
            match _sizes(value, values):
                case [int(height), int(width), 1 | 3 | 4 as channels]:
                    return (height, width, channels)
    return None


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return what variables of the file are set to, by name: of several values the first."""
    values: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip(node.targets[0].elts, node.value.elts, strict=False)]
            for target, value in pairs:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, value)
    return values


def _sizes(value: ast.expr, values: Mapping[str, ast.expr]) -> list[Any]:
    """Return the numbers of a tuple or of a sum of tuples, as `IMAGE_SIZE + (3,)`."""
    if isinstance(value, ast.Name) and value.id in values:
        own = {name: one for name, one in values.items() if name != value.id}
        return _sizes(values[value.id], own)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return [*_sizes(value.left, values), *_sizes(value.right, values)]
    if isinstance(value, ast.Tuple | ast.List):
        return [size for one in value.elts for size in _sizes(one, values)]
    if isinstance(value, ast.Starred):
        return _sizes(value.value, values)
    return [getattr(value, "value", None)]
