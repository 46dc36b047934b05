"""The call of `fit` of a script that runs up to it: recorded instead of carried out."""

import ast
import contextlib
import functools
import inspect
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

import keras
import tensorflow as tf

from pipelines.projects.scripts.row_order import record_orders
from pipelines.projects.scripts.rows import Array
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText
from trainer.errors import first_line


class _FitReached(BaseException):
    """Ends a script at its first fit; no `except Exception` of the script catches it."""


@dataclass
class Recording:
    """Record of a script up to its first `fit`.

    Attributes:
        line: of the call of `fit`, 0 before it.
        compiled: the arguments of `compile`, and the line of the call.
        assigned: the variables of models that were given values.
        callbacks: the arguments of Keras' callbacks, and the line of the call, by their identity.
        orders: the numbers of the rows after each shuffle, and in each part of a split.
        fault: why no rows reached `fit`.
    """

    model: Any = None
    fit: dict[str, Any] = field(default_factory=dict)
    line: int = 0
    compiled: tuple[Mapping[str, Any], int] = ({}, 0)
    variables: dict[str, Any] = field(default_factory=dict)
    assigned: dict[int, Any] = field(default_factory=dict)
    callbacks: dict[int, tuple[Any, dict[str, Any], int]] = field(default_factory=dict)
    orders: list[Array] = field(default_factory=list)
    fault: ScriptFault | None = None


def run_script(script: ScriptText) -> Recording:
    """Run a script up to its first `fit`, and return what it said.

    If a value that `fit` should get cannot be computed, its other arguments are recorded.
    """
    path = str(script.path)
    recording, module = Recording(), ModuleType("__main__")
    _patch(recording, path)
    _stay_alone()
    record_orders(script.text, recording.orders)
    sys.argv, sys.modules["__main__"] = [path], module
    module.__file__ = path
    try:
        exec(compile(script.tree, path, "exec"), module.__dict__)
        recording.fault = ScriptFault(
            "it ended without a call of fit; a model is trained by `model.fit(…)`"
        )
    except _FitReached:
        return recording
    except SystemExit as error:
        recording.fault = ScriptFault(
            f"it ended before its first fit ({error.code}); it gets no arguments"
        )
    except Exception as error:  # whatever the user's code raises
        if not recording.line:
            recording.fault = _fault_of(error, path)
            _record_call(error, script, recording)
    recording.variables = {**module.__dict__, **recording.variables}
    return recording


def _fault_of(error: Exception, path: str) -> ScriptFault:
    is_file = isinstance(error, FileNotFoundError)
    hint = "; paths are from the script's folder, or from the current one" if is_file else ""
    frames = _own_frames(error, path)
    line = frames[-1][1] if frames else getattr(error, "lineno", 0) or 0
    return ScriptFault(f"{type(error).__name__}: {first_line(error)}{hint}", line=line)


def _record_call(error: Exception, script: ScriptText, recording: Recording) -> None:
    for frame, line in _own_frames(error, str(script.path)):
        variables = {**frame.f_globals, **frame.f_locals}
        recording.variables |= variables
        for call in script.calls("fit", line):
            recording.line = call.lineno
            for keyword in call.keywords:
                code = compile(ast.Expression(keyword.value), str(script.path), "eval")
                with contextlib.suppress(Exception):  # it may be the one that failed
                    recording.fit[str(keyword.arg)] = eval(code, variables)


def _patch(recording: Recording, path: str) -> None:
    """Have Keras record the first fit, what comes before it, and the callbacks' arguments."""
    trainer = keras.src.trainers.trainer.Trainer
    variable = keras.src.backend.common.variables.Variable
    compiled: dict[int, tuple[Mapping[str, Any], int]] = {}
    fit, compile_, assign = keras.Model.fit, trainer.compile, variable.assign

    @functools.wraps(fit)
    def record_fit(self: Any, *arguments: Any, **named: Any) -> Any:
        if not recording.line:
            bound = inspect.signature(fit).bind(self, *arguments, **named).arguments
            recording.model = self
            recording.fit = {name: argument for name, argument in bound.items() if name != "self"}
            recording.line, recording.variables = _caller(path)
            recording.compiled = compiled.get(id(self), ({}, 0))
        raise _FitReached

    @functools.wraps(compile_)
    def record_compile(self: Any, *arguments: Any, **named: Any) -> Any:
        bound = inspect.signature(compile_).bind(self, *arguments, **named).arguments
        settings = {name: argument for name, argument in bound.items() if name != "self"}
        recording.compiled = compiled[id(self)] = settings, _caller(path)[0]
        return compile_(self, *arguments, **named)

    @functools.wraps(assign)
    def record_assign(self: Any, *arguments: Any, **named: Any) -> Any:
        recording.assigned[id(self)] = self
        return assign(self, *arguments, **named)

    keras.Model.fit, trainer.compile, variable.assign = record_fit, record_compile, record_assign
    for callback in vars(keras.callbacks).values():
        if inspect.isclass(callback) and issubclass(callback, keras.callbacks.Callback):
            _record_arguments(callback, recording, path)


def _stay_alone() -> None:
    """Have strategies of TensorFlow do nothing: some wait for other workers."""
    for name in [
        name for name in dir(tf.distribute) if name.endswith("Strategy") and name != "Strategy"
    ]:
        setattr(tf.distribute, name, lambda *_, **__: tf.distribute.get_strategy())


def _record_arguments(callback: Any, recording: Recording, path: str) -> None:
    make = callback.__init__

    @functools.wraps(make)
    def record(self: Any, *arguments: Any, **named: Any) -> None:
        bound = dict(inspect.signature(make).bind(self, *arguments, **named).arguments)
        del bound["self"]
        bound |= bound.pop("kwargs", {})
        make(self, *arguments, **named)
        recording.callbacks[id(self)] = (self, bound, _caller(path)[0])

    callback.__init__ = record


def _caller(path: str) -> tuple[int, dict[str, Any]]:
    frame: FrameType | None = inspect.currentframe()
    line, variables = 0, dict[str, Any]()
    while frame:
        if frame.f_code.co_filename == path:
            line = line or frame.f_lineno
            variables = {**frame.f_globals, **frame.f_locals, **variables}
        frame = frame.f_back
    return line, variables


def _own_frames(error: Exception, path: str) -> list[tuple[FrameType, int]]:
    frames = traceback.walk_tb(error.__traceback__)
    return [(frame, line) for frame, line in frames if frame.f_code.co_filename == path]
