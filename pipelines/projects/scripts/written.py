"""A recorded script as the source of a workload: its model, what `compile` and `fit` said."""

import abc
import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pipelines.projects.literals import comment
from pipelines.projects.scripts.compare_rows import Origin
from pipelines.projects.scripts.keras_source import Source
from pipelines.projects.scripts.model_source import ModelSource
from pipelines.projects.scripts.record import WEIGHTS
from pipelines.projects.scripts.recorder import Recording
from pipelines.projects.scripts.row_order import num_repeats
from pipelines.projects.scripts.rows import RecordedRows, read_rows
from pipelines.projects.scripts.scaled_label import backward, forward, scaled, scaled_loss
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText
from trainer import Json
from trainer.errors import first_line

COMPILED = ("optimizer", "loss", "loss_weights", "metrics", "weighted_metrics", "jit_compile")
# Callbacks whose work a job does itself.
OURS = ("ModelCheckpoint", "TensorBoard", "BackupAndRestore", "History", "ProgbarLogger")
TAKEN = (
    *("x", "y", "verbose", "validation_batch_size", "validation_steps", "batch_size", "epochs"),
    *("steps_per_epoch", "class_weight", "sample_weight", "callbacks", "shuffle"),
)
HALF_PRECISION = {"float16", "bfloat16"}
DEFAULT_BATCH = 32
CLOSE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The layers before a model, and a batch to compare its predictions with the script's.

    Attributes:
        batch: values of these, of the recorded rows `known`.
        scale: how the script scales a label of numbers.
    """

    lines: list[str]
    expressions: list[str]
    inputs: Any
    batch: Any
    known: Any
    scale: Origin | None = None


class Written:
    """Parts of a script that a workload takes over, and those it leaves out.

    Attributes:
        result: for the writer of the folder, see `RecordedScript`.
    """

    def __init__(self, script: ScriptText, recording: Recording):
        self.script, self.recording = script, recording
        self.source = Source(script, recording.variables)
        self.faults: list[ScriptFault] = []
        self.notes: list[str] = []
        self.result: Json = {"train": {}, "callbacks": [], "fit_line": recording.line}

    def ended(self) -> Json:
        """Return the result, with the notes, the faults, and what follows the first `fit`."""
        faults = [{"line": fault.line, "message": str(fault)} for fault in self.faults]
        line = self.recording.line
        after = list(self.script.after(line)) if line else []
        return {**self.result, "notes": self.notes, "faults": faults, "after": after}

    def _try(self, step: Callable[[], Any], *, line: int = 0) -> Any:
        try:
            return step()
        except ScriptFault as fault:
            fault.line = fault.line or line or self.recording.line
            self.faults.append(fault)
        except Exception as error:  # of the user's code, or of Keras
            reason = f"{type(error).__name__}: {first_line(error)}"
            self.faults.append(ScriptFault(reason, line=line or self.recording.line))
        return None

    def class_weights(self, values: Sequence[Any], weights: Mapping[Any, Any]) -> None:
        """Write down the weights of classes, which the script has by their numbers."""
        self.result["class_weights"] = [
            [values[int(code)], float(weight)] for code, weight in weights.items()
        ]

    def check_train_step(self, model: Any) -> None:
        """Raise ScriptFault if a model has its own train step, which a job would not call."""
        owner = next((base for base in type(model).__mro__ if "train_step" in vars(base)), object)
        if owner.__module__.split(".")[0] not in ("keras", "builtins"):
            raise ScriptFault(
                f"{owner.__name__} has its own train_step: write what it computes as compute_loss"
                "(self, x, y, y_pred, sample_weight), which every cluster calls",
                line=vars(owner)["train_step"].__code__.co_firstlineno,
            )

    def settings(self, rows: RecordedRows | None) -> None:
        """Write down the settings of fit."""
        fit, line = self.recording.fit, self.recording.line
        batch = fit.get("batch_size") or (rows.batch_size if rows else None) or DEFAULT_BATCH
        epochs, steps = fit.get("epochs", 1), fit.get("steps_per_epoch")
        if not steps and (repeats := num_repeats(fit.get("x"))) > 1:
            epochs *= repeats
            self.notes.append(f"an epoch of fit has each row {repeats} times: epochs is {epochs}")
        length = {"steps": int(steps * epochs)} if steps else {"epochs": int(epochs)}
        self.result["train"] = {**length, "batch_size": int(batch)}
        validation = [name for name in fit if name in ("validation_data", "validation_split")]
        if validation:
            self.notes.append(
                f"{' and '.join(validation)} of fit in line {line}: the eval split takes its place"
                " (prepare.ratios in run.yaml)"
            )
        if "Strategy" in self.script.text:
            self.notes.append("its strategy is not taken over: the cluster of run.yaml says where")
        if fit.get("shuffle", True) is False:
            self.notes.append(
                f"shuffle=False of fit in line {line} is not taken over: rows are shuffled in each"
                " epoch"
            )
        if "KFold(" in self.script.text:
            self.notes.append("its folds are not taken over: gate.folds=5 in run.yaml makes them")
        unknown = [name for name in fit if name not in (*TAKEN, *validation)]
        if unknown:
            self.notes.append(f"{', '.join(unknown)} of fit in line {line} is not taken over")
        for callback in fit.get("callbacks") or ():
            self._try(functools.partial(self._callback, callback))

    def _callback(self, callback: Any) -> None:
        name = type(callback).__name__
        made = self.recording.callbacks.get(id(callback))
        if name in OURS:
            position = f" in line {made[2]}" if made else ""
            self.notes.append(
                f"{name}{position} is left out: a job saves checkpoints and TensorBoard's logs"
            )
            return
        if hasattr(keras.callbacks, name) and made:
            arguments = [
                f"{key}={self.source.of(value)}"
                for key, value in made[1].items()
                if key != "verbose"
            ]
            self.result["callbacks"].append(f"keras.callbacks.{name}({', '.join(arguments)})")
            if file := made[1].get("filename"):
                self.notes.append(
                    f"{name} in line {made[2]} writes {file} in the folder of the training's job,"
                    " .trainyard/vertex/jobs/…, unless it is a whole path"
                )
            return
        self.source.own[name] = None
        own = self.script.arguments_of(name, self.source.variables)
        self.result["callbacks"].append(f"{name}({own})")

    def compiled(self) -> dict[str, str]:
        """Return the arguments of `compile`."""
        settings, line = self.recording.compiled
        if not line:
            raise ScriptFault("the model is not compiled before fit", line=self.recording.line)
        return {
            name: self.source.of(settings[name])
            for name in COMPILED
            if settings.get(name) is not None and settings[name] != "auto"
        }


class WrittenModel(Written, abc.ABC):
    """A script whose model is written down as layers on the file's own values."""

    most_rows = 20_000

    def __init__(self, script: ScriptText, recording: Recording):
        super().__init__(script, recording)
        self.models = ModelSource(self.source)
        self.model = recording.model

    @abc.abstractmethod
    def parts(self, rows: RecordedRows) -> Parts:
        """Return the layers before the model, and write down the label and the weights.

        Raises:
            ScriptFault: the rows are not the data's.
        """

    def take_over(self, folder: Path) -> Json:
        """Return what is taken over, with all faults; weights are a file in the folder."""
        rows = self._try(self._read)
        parts = self._try(lambda: self.parts(rows)) if rows else None
        self.settings(rows)
        compiled = self._try(self.compiled, line=self.recording.compiled[1])
        if not self.faults and parts and rows:
            self._try(lambda: self._write(parts, compiled or {}, rows, folder))
        return self.ended()

    def num_outputs(self, rows: RecordedRows) -> int:
        """Return the size of the model's output, which must be the only one."""
        outputs = keras.tree.flatten(self.model(rows.as_given(slice(0, 2))))
        if len(outputs) > 1:
            raise ScriptFault(
                f"the model has {len(outputs)} outputs, and a workload one label: give"
                " keras.Model one output, or the others to add_loss",
                line=self.script.line_of_variable(self.recording.line),
            )
        return int(outputs[0].shape[-1])

    def _read(self) -> RecordedRows:
        fit = self.recording.fit
        arguments = (fit.get("x"), fit.get("y"), fit.get("sample_weight"))
        rows = read_rows(*arguments, most_rows=self.most_rows)
        if not hasattr(self.model, "_nodes_by_depth") and not getattr(
            self.model, "_functional", None
        ):
            self.model(rows.as_given(slice(0, 2)))  # which builds it
        return rows

    def _write(
        self, parts: Parts, compiled: dict[str, str], rows: RecordedRows, folder: Path
    ) -> None:
        line = self.script.line_of_variable(self.recording.line)
        name = comment(self.script.path.name)
        own, outputs = self._own_lines(parts, rows, line)
        losses = []
        if parts.scale:
            loss = self.recording.compiled[0].get("loss")
            losses = [scaled_loss(parts.scale, loss, self.source)]
            self.notes.append(
                f"the label is {forward(parts.scale, 'labels')} in its loss; the model predicts the"
                " file's own numbers, and the metrics of compile are of these"
            )
            compiled = {**compiled, "loss": "loss_of_scaled"}
            outputs = backward(parts.scale, outputs)
        imports, definitions = self.source.definitions()
        body = [
            *([f"# What {name} does before the model."] if parts.lines else []),
            *parts.lines,
            f"# The model of line {line}.",
            *own,
            f"built = keras.Model(inputs, {outputs})",
        ]
        has_weights = self._given_variables()
        load = f'built.load_weights(Path(__file__).with_name("{WEIGHTS}"))  # as {name} sets them'
        call = ", ".join(f"{key}={value}" for key, value in compiled.items())
        compile_ = f"built.compile({call})  # line {self.recording.compiled[1]}"
        self.result |= {
            "imports": imports,
            "definitions": [*definitions, *self.models.functions, *losses],
            "model": body,
            "end": [*([load] if has_weights else []), compile_, "return built"],
            "values": self.source.values,
        }
        built = self._rebuild(body, parts, rows)
        if has_weights:
            built.save_weights(folder / WEIGHTS)

    def _own_lines(self, parts: Parts, rows: RecordedRows, line: int) -> tuple[list[str], str]:
        """Return the lines of the script's model, and the expression of its outputs."""
        try:
            self.check_train_step(self.model)
            if hasattr(self.model, "_functional") or hasattr(self.model, "_nodes_by_depth"):
                return self.models.lines(self.model, parts.expressions)
            made = [f"own = {self.models.subclass(self.model)}"]
            return made, f"own({rows.source(parts.expressions)})"
        except ScriptFault as fault:
            fault.line = fault.line or line
            raise

    def _given_variables(self) -> bool:
        layers = keras.layers.Normalization | keras.layers.Discretization
        own = _own_variables(self.model, adapted=layers)
        return any(id(variable) in self.recording.assigned for variable in own)

    def _rebuild(self, body: list[str], parts: Parts, rows: RecordedRows) -> Any:
        """Return the model that the source builds, with the script's weights.

        Raises:
            ScriptFault: it computes other numbers than the script's model.
        """
        text = "\n\n".join(["import keras", *self.result["imports"], *self.result["definitions"]])
        lines = textwrap.indent("\n".join(body), "    ")
        code = f"{text}\n\ndef model(inputs):\n{lines}\n    return built\n"
        scope: dict[str, Any] = {"__name__": "written", "VALUES": self.source.values}
        try:
            exec(compile(code, "<workload.py>", "exec"), scope)
            built = scope["model"](parts.inputs)
        except Exception as error:
            message = next(filter(None, map(str.strip, str(error).splitlines())), "")
            raise ScriptFault(f"its model cannot be written down: {message}") from error
        _copy_weights(self.model, built)
        wanted = np.asarray(self.model(rows.as_given(parts.known), training=False))
        made = np.asarray(built(parts.batch, training=False))
        if parts.scale:
            made = scaled(parts.scale, made)
        scale = np.abs(wanted).max() or 1.0
        if made.shape != wanted.shape or not np.abs(made - wanted).max() <= CLOSE * scale:
            types = {layer.compute_dtype for layer in self.model._flatten_layers()}
            half = HALF_PRECISION & types
            reason = f" (it has layers of {min(half)}: remove the policy)" if half else ""
            raise ScriptFault(
                f"the layers that would be written compute other numbers than its model{reason}"
            )
        return built


def _copy_weights(source: Any, target: Any) -> None:
    """Give a model the weights of another, except the weights of adapted layers."""
    pairs = [_own_variables(source), _own_variables(target)]
    if [tuple(array.shape) for array in pairs[0]] != [tuple(array.shape) for array in pairs[1]]:
        raise ScriptFault("the layers that would be written have other weights than its model")
    for own, variable in zip(*pairs, strict=True):
        variable.assign(own.value)


def _own_variables(model: Any, *, adapted: Any = keras.layers.Normalization) -> list[Any]:
    """Return the weights of a model, except the weights of layers that `adapt` fills."""
    layers = (layer for layer in model._flatten_layers() if isinstance(layer, adapted))
    learnt = {id(variable) for layer in layers for variable in layer.variables}
    return [weight for weight in model.weights if id(weight) not in learnt]
