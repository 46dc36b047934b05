"""The call of `trainyard.fit` of a script that runs up to it: recorded instead of carried out."""

import ast
import collections
import inspect
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any, NoReturn

import keras
import numpy as np

from pipelines.projects.scripts.script_text import ScriptFault, ScriptText
from trainer.errors import first_line

current: "Recording | None" = None  # of this process, which runs a script


class _FitReached(BaseException):
    """Ends a script after its fit; no `except Exception` of the script catches it."""


@dataclass
class Recording:
    """Record of a script up to its fit.

    Attributes:
        fit_arguments: of `model.fit`.
        told: `rows`, `images` and `label` of `trainyard.fit`.
        line: of the call, 0 before it.
        epochs: of all its calls, if it is in a loop.
        variables: of the script, and of the function that calls it.
        made: callbacks and models with the arguments that made them, by their identity.
        assigned: the variables of models that were given values, or trained before.
    """

    script: ScriptText
    model: Any = None
    fit_arguments: dict[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    epochs: int = 0
    variables: dict[str, Any] = field(default_factory=dict)
    made: dict[int, tuple[Any, Sequence[Any], Mapping[str, Any]]] = field(default_factory=dict)
    assigned: dict[int, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    fault: ScriptFault | None = None
    _state: Any = None

    def fit(
        self,
        model: Any,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        told: Mapping[str, Any],
    ) -> Any:
        """Record a call instead of carrying it out, and end the script if no loop repeats it."""
        frames = self._frames()
        line = frames[0].f_lineno if frames else 0
        bound = inspect.signature(keras.Model.fit).bind(model, *arguments, **named).arguments
        labels = [np.asarray(values).tobytes() for values in keras.tree.flatten(bound.get("y"))]
        sizes = [bound.get(name) for name in ("batch_size", "steps_per_epoch")]
        state = (line, _state_of(model), labels, sizes)
        if self.line and model is not self.model:
            self.notes.append(
                f"fit in line {line} is in a loop with several models: the first is taken over;"
                " gate.folds of run.yaml makes folds, trainyard tune searches settings"
            )
            self._end()
        if self.line and state != self._state:
            self._end(
                ScriptFault(
                    "the calls of fit in a loop differ in their rows, batch size, learning rate,"
                    " compile or trainable layers: call it once with all rows, the rate by a"
                    " LearningRateScheduler, and epochs=…",
                    line=line,
                )
            )
        self.model, self.line, self.told = model, line, told
        self._state = state
        self.fit_arguments = {name: value for name, value in bound.items() if name != "self"}
        self.epochs += bound.get("epochs", 1) - bound.get("initial_epoch", 0)
        for frame in frames[:1]:
            self.variables = {**frame.f_globals, **frame.f_locals}
        loops = [(f, loop) for f in frames if (loop := self.script.loop_around(f.f_lineno))]
        if not loops:
            self._end()
        _end_after(*loops[-1])
        history = keras.callbacks.History()
        history.history = collections.defaultdict(lambda: [float("nan")])
        return history

    def _end(self, fault: ScriptFault | None = None) -> NoReturn:
        self.fault = fault
        raise _FitReached

    def _frames(self) -> list[FrameType]:
        frames = (frame for frame, _ in traceback.walk_stack(None))
        return [frame for frame in frames if frame.f_code.co_filename == str(self.script.path)]


def _state_of(model: Any) -> Any:
    """Return what must be the same at each call of fit in a loop."""
    rate = getattr(model.optimizer, "learning_rate", 0)
    trainable = tuple(layer.trainable for layer in model._flatten_layers())
    return id(getattr(model, "_compile_config", None)), float(rate), trainable


def _end_after(frame: FrameType, loop: ast.stmt) -> None:
    """End the script where it leaves a loop of a function's frame."""

    def trace(current_frame: FrameType, event: str, _argument: Any) -> Any:
        is_within = loop.lineno <= current_frame.f_lineno <= (loop.end_lineno or 0)
        if event == "return" or (event == "line" and not is_within):
            raise _FitReached
        return trace

    for name in ("save", "save_weights", "export"):  # files of the script, in the loop
        setattr(keras.Model, name, lambda *_, **__: None)
    frame.f_trace = trace
    sys.settrace(lambda *_: None)


def run_script(script: ScriptText) -> Recording:
    """Run a script up to its fit, and return what it said."""
    global current  # noqa: PLW0603  trainyard.fit asks for it
    path, module = str(script.path), ModuleType("__main__")
    current = recording = Recording(script)
    _patch(recording)
    sys.argv, sys.modules["__main__"], trace = [path], module, sys.gettrace()
    module.__file__ = path
    try:
        exec(compile(script.tree, path, "exec"), module.__dict__)
    except _FitReached:
        return recording
    except SystemExit as error:
        if not recording.line:
            recording.fault = ScriptFault(f"it ended before trainyard.fit ({error.code})")
    except Exception as error:  # whatever the user's code raises
        recording.fault = _fault_of(error, path)
    finally:
        sys.settrace(trace)
    if not recording.line and not recording.fault:
        recording.fault = ScriptFault("it ended without a call of trainyard.fit(model, x, y, …)")
    return recording


def _fault_of(error: Exception, path: str) -> ScriptFault:
    is_absent = isinstance(error, FileNotFoundError | ModuleNotFoundError)
    hint = "; start trainyard new in the folder in which you start the script" if is_absent else ""
    traced = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in traced if frame.f_code.co_filename == path]
    return ScriptFault(f"{type(error).__name__}: {first_line(error)}{hint}", line=[0, *lines][-1])


def _patch(recording: Recording) -> None:
    """Have Keras keep the arguments of callbacks and models, and which weights are assigned."""
    variable = keras.src.backend.common.variables.Variable
    optimizer = keras.src.optimizers.base_optimizer.BaseOptimizer
    make_model, assign, apply = keras.Model.__new__, variable.assign, optimizer.apply

    def new_callback(cls: Any, *arguments: Any, **named: Any) -> Any:
        made = object.__new__(cls)
        recording.made[id(made)] = made, arguments, named
        return made

    def new_model(cls: Any, *arguments: Any, **named: Any) -> Any:
        made = make_model(cls, *arguments, **named)
        recording.made[id(made)] = made, arguments, named
        return made

    def record_assign(self: Any, *arguments: Any, **named: Any) -> Any:
        recording.assigned[id(self)] = self
        return assign(self, *arguments, **named)

    def record_apply(self: Any, gradients: Any, trainable_variables: Any = None) -> Any:
        trained = trainable_variables or self._trainable_variables
        recording.assigned |= {id(weight): weight for weight in trained}
        return apply(self, gradients, trainable_variables)

    keras.callbacks.Callback.__new__, keras.Model.__new__ = new_callback, new_model
    variable.assign, optimizer.apply = record_assign, record_apply
