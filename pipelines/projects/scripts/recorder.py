"""The call of `trainyard.fit` of a script that runs up to it: recorded instead of carried out."""

import ast
import collections
import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

import keras
import numpy as np

from pipelines.projects.scripts.script_text import ScriptFault, ScriptText
from pipelines.projects.scripts.source import keep_arguments
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
    """

    script: ScriptText
    model: Any = None
    fit_arguments: dict[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    epochs: int = 0
    variables: dict[str, Any] = field(default_factory=dict)
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
        walked = (frame for frame, _ in traceback.walk_stack(None))
        path = str(self.script.path)
        frames = [frame for frame in walked if frame.f_code.co_filename == path]
        line = frames[0].f_lineno if frames else 0
        fit = inspect.signature(keras.Model.fit).bind(model, *arguments, **named).arguments
        state = (
            *(line, fit.get("batch_size"), fit.get("steps_per_epoch")),
            [np.asarray(values).tobytes() for values in keras.tree.flatten(fit.get("y"))],
            id(getattr(model, "_compile_config", None)),
            float(getattr(model.optimizer, "learning_rate", 0)),
        )
        if self.line and model is not self.model:
            self.notes.append(
                f"fit in line {line} is in a loop with several models: the first is taken over;"
                " gate.folds of run.yaml makes folds, trainyard tune searches settings"
            )
            raise _FitReached
        if self.line and state != self._state:
            self.fault = ScriptFault(
                "the calls of fit in a loop differ in their rows, batch size, learning rate or"
                " compile: call it once with all rows, the rate by a LearningRateScheduler, and"
                " epochs=…",
                line=line,
            )
            raise _FitReached
        self.model, self.line, self.told, self._state = model, line, told, state
        self.fit_arguments = {name: value for name, value in fit.items() if name != "self"}
        self.epochs += fit.get("epochs", 1) - fit.get("initial_epoch", 0)
        for frame in frames[:1]:
            self.variables = {**frame.f_globals, **frame.f_locals}
        loops = [(f, loop) for f in frames if (loop := self.script.loop_around(f.f_lineno))]
        if not loops:
            raise _FitReached
        _end_after(*loops[-1])
        history = keras.callbacks.History()
        history.history = collections.defaultdict(lambda: [float("nan")])
        return history


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
    """Run a script up to its fit, and return what it said.

    Raises:
        ScriptFault: it does not get there; names the line.
    """
    global current  # noqa: PLW0603  trainyard.fit asks for it
    path, module = str(script.path), ModuleType("__main__")
    current = recording = Recording(script)
    keep_arguments()
    _note_assignments()
    sys.argv, sys.modules["__main__"], trace = [path], module, sys.gettrace()
    module.__file__ = path
    end = "without a call of trainyard.fit(model, x, y, …)"
    try:
        exec(compile(script.tree, path, "exec"), module.__dict__)
    except _FitReached:
        pass
    except SystemExit as error:
        end = f"before trainyard.fit ({error.code})"
    except Exception as error:  # whatever the user's code raises
        raise _fault_of(error, path) from error
    finally:
        sys.settrace(trace)
    if recording.fault or not recording.line:
        raise recording.fault or ScriptFault(f"it ended {end}")
    return recording


def _fault_of(error: Exception, path: str) -> ScriptFault:
    is_absent = isinstance(error, FileNotFoundError | ModuleNotFoundError)
    hint = "; start trainyard new in the folder in which you start the script" if is_absent else ""
    traced = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in traced if frame.f_code.co_filename == path]
    return ScriptFault(f"{type(error).__name__}: {first_line(error)}{hint}", line=[0, *lines][-1])


@functools.cache
def _note_assignments() -> None:
    """Have weights know that they were assigned, or trained."""

    def note(owner: Any, method: str, weights_of: Callable[..., Sequence[Any]]) -> None:
        original = getattr(owner, method)

        def noting(*arguments: Any, **named: Any) -> Any:
            for weight in weights_of(*arguments, **named):
                weight._is_assigned = True
            return original(*arguments, **named)

        setattr(owner, method, noting)

    base = keras.src.optimizers.base_optimizer.BaseOptimizer
    note(keras.src.backend.common.variables.Variable, "assign", lambda weight, *_, **__: [weight])
    note(base, "apply", lambda own, _, weights=None: weights or own._trainable_variables)
