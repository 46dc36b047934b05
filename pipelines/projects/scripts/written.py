"""A recorded script as the source of a workload: its model, what `compile` and `fit` said."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pipelines.projects.scripts.compare_rows import (
    Array,
    FileColumn,
    Origin,
    find_rows,
    label_origin,
    label_table,
)
from pipelines.projects.scripts.faults import ScriptFault
from pipelines.projects.scripts.front import Front, layers_before
from pipelines.projects.scripts.keras_source import Source, number
from pipelines.projects.scripts.model_source import ModelSource
from pipelines.projects.scripts.recorder import Recording
from pipelines.projects.scripts.rows import RecordedInput, RecordedRows, read_rows
from pipelines.projects.scripts.script_text import ScriptText
from trainer import Json

WEIGHTS = "given.weights.h5"
LOSS = '''\
def loss_of_scaled(labels, outputs):
    """Return the loss of {file}, which trains on labels that it scales."""
    return {loss}({labels}, {outputs})'''
COMPILED = ("optimizer", "loss", "loss_weights", "metrics", "weighted_metrics", "jit_compile")
# Callbacks whose work a job does itself.
OURS = ("ModelCheckpoint", "TensorBoard", "BackupAndRestore", "History", "ProgbarLogger")
SILENT = ("x", "y", "verbose", "validation_batch_size", "validation_steps")
NUM_CHECKED = 64
CLOSE = 1e-3


@dataclass
class Written:
    """What a workload takes over from a script, and what not.

    Attributes:
        script: its text.
        recording: of its run.
        faults: what stops it, with lines.
        notes: what the user should know.
        result: for the writer of the folder, see `write`.
    """

    script: ScriptText
    recording: Recording
    faults: list[ScriptFault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    result: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = Source(self.script, self.recording.variables)
        self.models = ModelSource(self.source)
        self.model = self.recording.model

    def table(self, columns: Sequence[FileColumn], target: FileColumn, folder: Path) -> Json:
        """Return what is taken over for a table with a label; raise nothing: see `faults`."""
        rows = self._try(self._read)
        parts = self._try(lambda: self._front(rows, columns, target)) if rows else None
        self._settings(rows)
        compiled = self._try(self._compiled, line=self.recording.compiled[1])
        if not self.faults and parts and rows:
            self._try(lambda: self._write(parts, compiled or {}, rows, folder))
        return {**self.result, "notes": self.notes, "faults": self._faults()}

    def _try(self, step: Callable[[], Any], *, line: int = 0) -> Any:
        try:
            return step()
        except ScriptFault as fault:
            fault.line = fault.line or line or self.recording.line
            self.faults.append(fault)
            return None

    def _faults(self) -> list[Json]:
        return [{"line": one.line, "message": str(one)} for one in self.faults]

    def _read(self) -> RecordedRows:
        given = self.recording.fit
        return read_rows(given.get("x"), given.get("y"), given.get("sample_weight"))

    def _front(
        self, rows: RecordedRows, columns: Sequence[FileColumn], target: FileColumn
    ) -> "_Parts":
        """Return the layers before the model, and the label's classes."""
        self._build(rows)
        inputs = _inputs_of(self.model, rows)
        variables = self.recording.variables
        layers = {
            one.name: found
            for one, _ in inputs
            if one.num_columns > 1 and one.values.dtype.kind in "iu"
            if (found := layers_before(one, columns, variables))
        }
        if layers:
            places: Array | None = next(iter(layers.values()))[2]
        else:
            plain = [one.column(at) for one, _ in inputs for at in range(one.num_columns)]
            numbers = [rows.index, *self.recording.splits]
            places = find_rows(plain, rows.label, columns, target, numbers=numbers)
        if places is None:
            raise ScriptFault(
                "the rows that reached fit are not rows of the file with its label"
                f" {target.name!r}: give the file that the script reads, and the column that it"
                " predicts, as it is"
            )
        scale = self._label(rows, target, places)
        front = Front(columns, places, self.source)
        expressions = []
        for at, (one, wanted) in enumerate(inputs):
            variable = "x" if len(inputs) == 1 else f"input_{at + 1}"
            if one.name in layers:
                layer, column, _ = layers[one.name]
                front.used[column.name] = column
                expression = f"{self.source.of(layer)}(inputs[{json.dumps(column.name)}])"
                self.notes.append(f"{column.name}: vectorized outside the model; now within it")
            else:
                expression = front.tensor(one, wanted, variable=variable)
            expressions.append(expression)
        self.notes += [*dict.fromkeys(front.notes)]
        self._weights(rows, columns, places)
        is_scaled = scale is not None and (scale.is_scaled or scale.log_shift is not None)
        return _Parts(front, expressions, places, scale if is_scaled else None)

    def _build(self, rows: RecordedRows) -> None:
        """Build a model that knows its inputs from the first rows only."""
        if not getattr(self.model, "_functional", None) and not hasattr(
            self.model, "_nodes_by_depth"
        ):
            self.model(_as_given(rows, slice(0, 2)))

    def _label(self, rows: RecordedRows, target: FileColumn, places: Array) -> Origin | None:
        """Write down which label the script trains on; return the origin of numbers."""
        output = keras.tree.flatten(self.model(_as_given(rows, slice(0, 2))))
        if len(output) > 1:
            raise ScriptFault(
                "the model has several outputs, and the label is one: name it, in a function"
                " `model` of a workload"
            )
        num_outputs = output[0].shape[-1]
        table = label_table(rows.label, target, places)
        origin = label_origin(rows.label, target, places)
        is_number = rows.label.dtype.kind == "f" and "crossentropy" not in str(self._loss_name())
        if num_outputs == 1 and origin is not None and (is_number or table is None):
            self.result["label"] = {"kind": "regression"}
            return origin
        if table is None:
            raise ScriptFault(f"the label of fit does not follow from the column {target.name!r}")
        codes = {int(code): value for value, code in table.items()}
        if len(codes) < len(table):
            raise ScriptFault(
                f"several values of {target.name} are one class in fit: write the class into the"
                " file as a column"
            )
        kind = "binary" if num_outputs == 1 else "classes"
        self.result["label"] = {"kind": kind, "values": [codes[code] for code in sorted(codes)]}
        if kind == "classes" and num_outputs != len(codes):
            self.notes.append(
                f"the model has {num_outputs} outputs for {len(codes)} classes of {target.name}"
            )
        return None

    def _loss_name(self) -> str:
        loss = self.recording.compiled[0].get("loss")
        return str(
            loss if isinstance(loss, str) else getattr(loss, "name", getattr(loss, "__name__", ""))
        )

    def _weights(self, rows: RecordedRows, columns: Sequence[FileColumn], places: Array) -> None:
        """Write down the weights of classes and rows."""
        given = self.recording.fit.get("class_weight")
        values = self.result["label"].get("values", [])
        if given:
            self.result["class_weights"] = [
                [values[int(code)], float(weight)] for code, weight in given.items()
            ]
        if rows.weights is None:
            return
        known = places >= 0
        codes = (
            rows.label.argmax(1)
            if rows.label.ndim > 1 and rows.label.shape[1] > 1
            else rows.label.reshape(-1)
        )
        by_class = (
            {int(code): set(rows.weights[codes == code].tolist()) for code in np.unique(codes)}
            if values
            else {}
        )
        for column in columns:
            if not column.is_text and np.allclose(
                column.values[places[known]], rows.weights[known]
            ):
                self.result["weight"] = column.name
                return
        if by_class and all(len(one) == 1 for one in by_class.values()):
            self.result["class_weights"] = [
                [values[code], one.pop()] for code, one in by_class.items()
            ]
            self.notes.append("sample_weight has one number for each class: class_weights has them")
            return
        raise ScriptFault(
            "sample_weight is neither a column of the file nor a number for each class: write it"
            " into the file as a column"
        )

    def _settings(self, rows: RecordedRows | None) -> None:
        """Write down the settings of fit."""
        given = self.recording.fit
        batch = given.get("batch_size") or (rows.batch_size if rows else None) or 32
        epochs = given.get("epochs", 1)
        steps = given.get("steps_per_epoch")
        self.result["train"] = {
            **({"steps": int(steps * epochs)} if steps else {"epochs": int(epochs)}),
            "batch_size": int(batch),
        }
        taken = (
            *SILENT,
            "batch_size",
            "epochs",
            "steps_per_epoch",
            "class_weight",
            "sample_weight",
        )
        others = [name for name in given if name not in (*taken, "callbacks")]
        validation = [name for name in others if name.startswith("validation")]
        if validation:
            self.notes.append(
                f"{' and '.join(validation)}: the eval split takes its place, a tenth of the rows"
                " (prepare.ratios in run.yaml)"
            )
        if given.get("shuffle", True) is False:
            self.notes.append("shuffle=False is not taken over: rows are shuffled in each epoch")
        unknown = [name for name in others if name not in (*validation, "shuffle")]
        if unknown:
            self.notes.append(f"{', '.join(unknown)} of fit is not taken over")
        self.result["callbacks"] = []
        for callback in given.get("callbacks") or ():
            self._try(functools.partial(self._callback, callback))

    def _callback(self, callback: Any) -> None:
        name = type(callback).__name__
        if name in OURS:
            self.notes.append(f"{name} is left out: a job saves checkpoints and TensorBoard's logs")
            return
        made = self.recording.callbacks.get(id(callback))
        if hasattr(keras.callbacks, name) and made:
            arguments = [
                f"{key}={self.source.of(one)}" for key, one in made[1].items() if key != "verbose"
            ]
            self.result["callbacks"].append(f"keras.callbacks.{name}({', '.join(arguments)})")
            return
        self.source.own[name] = None
        own = self.script.arguments_of(name, self.source.variables)
        self.result["callbacks"].append(f"{name}({own})")

    def _compiled(self) -> dict[str, str]:
        """Return the arguments of `compile`."""
        given, line = self.recording.compiled
        if not line:
            raise ScriptFault("the model is not compiled before fit", line=self.recording.line)
        return {
            name: self.source.of(given[name])
            for name in COMPILED
            if given.get(name) is not None and given[name] != "auto"
        }

    def _scaled_loss(self, scale: Origin) -> str:
        """Return the source of a loss that scales labels and outputs as the script its labels."""
        loss = self.recording.compiled[0].get("loss")
        if isinstance(loss, list | tuple | Mapping):
            [loss] = loss.values() if isinstance(loss, Mapping) else loss
        made = (
            f"keras.losses.get({self.source.of(loss)})"
            if isinstance(loss, str)
            else self.source.of(loss)
        )
        is_object = isinstance(loss, keras.losses.Loss)
        forms = [_forward(scale, name) for name in ("labels", "outputs")]
        self.notes.append(
            f"the label is {forms[0]} in its loss; the model predicts the file's own numbers, and"
            " the metrics of compile are of these"
        )
        return LOSS.format(
            file=self.script.path.name,
            loss=f"{made}.call" if is_object else made,
            labels=forms[0],
            outputs=forms[1],
        )

    def _write(
        self, parts: "_Parts", compiled: dict[str, str], rows: RecordedRows, folder: Path
    ) -> None:
        """Write the source of the model, and check that it computes what the script's does."""
        line = self.script.line_of_variable(self.recording.line)
        if type(self.model).train_step is not keras.Model.train_step:
            raise ScriptFault(f"{type(self.model).__name__} has its own train_step", line=line)
        if hasattr(self.model, "_functional") or hasattr(self.model, "_nodes_by_depth"):
            own, outputs = self._try_line(
                lambda: self.models.lines(self.model, parts.expressions), line
            )
        else:
            made = self._try_line(lambda: self.models.subclass(self.model), line)
            own, outputs = [f"own = {made}"], f"own({_given_source(rows, parts.expressions)})"
        losses = []
        if parts.scale:
            losses = [self._scaled_loss(parts.scale)]
            compiled = {**compiled, "loss": "loss_of_scaled"}
            outputs = _backward(parts.scale, outputs)
        imports, definitions = self.source.definitions()
        name = self.script.path.name
        given = self._given_variables()
        body = [
            *([f"# As {name} has it before the model."] if parts.front.lines else []),
            *parts.front.lines,
            f"# The model of line {line}.",
            *own,
            f"built = keras.Model(inputs, {outputs})",
        ]
        load = f'built.load_weights(Path(__file__).with_name("{WEIGHTS}"))  # as {name} sets them'
        call = ", ".join(f"{key}={value}" for key, value in compiled.items())
        compile_ = f"built.compile({call})  # line {self.recording.compiled[1]}"
        last = [*([load] if given else []), compile_, "return built"]
        self.result |= {
            "imports": imports,
            "definitions": [*definitions, *self.models.functions, *losses],
            "model": body,
            "end": last,
            "values": self.source.values,
            "columns": [_described(one, parts.front) for one in parts.front.used.values()],
            "line": line,
            "fit_line": self.recording.line,
        }
        built = self._rebuild(body, parts, rows)
        if given:
            built.save_weights(folder / WEIGHTS)

    def _try_line(self, step: Callable[[], Any], line: int) -> Any:
        try:
            return step()
        except ScriptFault as fault:
            fault.line = fault.line or line
            raise

    def _given_variables(self) -> bool:
        """Return whether the script gave its model weights, besides those of `adapt`."""
        adapted = {
            id(variable)
            for layer in self.model._flatten_layers()
            if isinstance(layer, keras.layers.Normalization | keras.layers.Discretization)
            for variable in layer.variables
        }
        return any(
            id(variable) in self.recording.assigned and id(variable) not in adapted
            for variable in self.model.weights
        )

    def _rebuild(self, body: list[str], parts: "_Parts", rows: RecordedRows) -> Any:
        """Return the model that the source builds, with the script's weights.

        Raises:
            ScriptFault: it computes other numbers than the script's model.
        """
        text = "\n\n".join(["import keras", *self.result["imports"], *self.result["definitions"]])
        lines = "\n".join(f"    {line}" for one in body for line in one.splitlines())
        code = f"{text}\n\ndef model(inputs):\n{lines}\n    return built\n"
        scope: dict[str, Any] = {"__name__": "written", "VALUES": self.source.values}
        used = parts.front.used
        inputs = {
            name: keras.Input([1], name=name, dtype="string" if one.is_text else "float32")
            for name, one in used.items()
        }
        try:
            exec(compile(code, "<workload.py>", "exec"), scope)
            built = scope["model"](inputs)
        except Exception as error:
            message = next(filter(None, map(str.strip, str(error).splitlines())), "")
            raise ScriptFault(f"its model cannot be written down: {message}") from error
        _copy_weights(self.model, built)
        known = np.flatnonzero(parts.rows >= 0)[:NUM_CHECKED]
        batch = {
            name: keras.ops.convert_to_tensor(_values(one, parts.rows[known]))
            for name, one in used.items()
        }
        wanted = np.asarray(self.model(_as_given(rows, known), training=False))
        made = np.asarray(built(batch, training=False))
        if parts.scale:
            made = _scaled(parts.scale, made)
        scale = np.abs(wanted).max() or 1.0
        if made.shape != wanted.shape or not np.abs(made - wanted).max() <= CLOSE * scale:
            raise ScriptFault(
                "the layers that would be written compute other numbers than its model"
            )
        return built


@dataclass(frozen=True)
class _Parts:
    """The layers before a model, its inputs' expressions, and the rows' places in the file."""

    front: Front
    expressions: list[str]
    rows: Array
    scale: Origin | None = None


def _described(column: FileColumn, front: Front) -> Json:
    """Return what the declaration of a column needs to know."""
    missing = np.isnan(column.values) if not column.is_text else np.array([False])
    is_filled = front.filled.get(column.name, True) or _has_missing(front, column)
    return {
        "name": column.name,
        "is_text": column.is_text,
        "num_dropped": 0 if is_filled else int(missing.sum()),
    }


def _has_missing(front: Front, column: FileColumn) -> bool:
    """Return whether a row without a value of the column reached fit."""
    known = front.rows[front.rows >= 0]
    return not column.is_text and bool(np.isnan(column.values[known]).any())


def _forward(scale: Origin, name: str) -> str:
    """Return the expression of numbers as the script scales its label."""
    if scale.log_shift is not None:
        shift = f" + {number(scale.log_shift)}" if scale.log_shift else ""
        name = f"keras.ops.log({name}{shift})"
    moved = f"({name} - {number(scale.mean)})" if scale.mean else name
    return f"{moved} / {number(scale.deviation)}" if scale.deviation != 1 else moved


def _backward(scale: Origin, outputs: str) -> str:
    """Return the expression of the file's numbers, of outputs that are like scaled labels."""
    made = f"keras.layers.Rescaling({number(scale.deviation)}, {number(scale.mean)})({outputs})"
    if scale.log_shift is None:
        return made
    return f"keras.ops.exp({made}) - {number(scale.log_shift)}"


def _scaled(scale: Origin, values: Array) -> Array:
    values = values if scale.log_shift is None else np.log(values + scale.log_shift)
    return (values - scale.mean) / scale.deviation


def _values(column: FileColumn, rows: Array) -> Array:
    values = column.values[rows][:, np.newaxis]
    return values.astype(str) if column.is_text else values.astype(np.float32)


def _inputs_of(model: Any, rows: RecordedRows) -> list[tuple[RecordedInput, Any]]:
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


def _as_given(rows: RecordedRows, which: Any) -> Any:
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


def _given_source(rows: RecordedRows, expressions: Sequence[str]) -> str:
    if rows.kind == "dict":
        items = ", ".join(
            f"{json.dumps(one.name)}: {expression}"
            for one, expression in zip(rows.inputs, expressions, strict=True)
        )
        return f"{{{items}}}"
    return f"[{', '.join(expressions)}]" if rows.kind == "list" else expressions[0]


def _copy_weights(source: Any, target: Any) -> None:
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
