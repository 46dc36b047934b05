"""The function of a script that makes its model, as a workload's `model`, with what `fit` said."""

import ast
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from pipelines.projects.scripts.recorder import Recording
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText
from pipelines.projects.scripts.written import Written
from trainer import Json
from trainer.errors import first_line

INPUTS = ("inputs", "input", "x")
RESERVED = ("model", "workload")
NUM_CLASSES = ("num_classes", "n_classes", "classes", "num_labels")
# Arguments without a default that are known from the data.
KNOWN = {
    **dict.fromkeys(NUM_CLASSES, "len(labels)"),
    **dict.fromkeys(("input_shape", "shape"), "tuple(combined.shape[1:])"),
    **dict.fromkeys(("input_dim", "num_features", "n_features"), "combined.shape[-1]"),
}
BY_NAME = """\
columns = {}
for wanted in own.inputs:
    values = inputs[wanted.name]
    values = values if wanted.dtype == "string" else keras.ops.cast(values, wanted.dtype)
    columns[wanted.name] = keras.ops.reshape(values, (-1, *wanted.shape[1:]))"""
COMPILED = """\
if own.compiled:
    compiled = {**own.get_compile_config(), "optimizer": None, "loss": None}
    compiled = keras.saving.deserialize_keras_object(compiled)
    built.compile(**{**compiled, "optimizer": own.optimizer, "loss": own.loss})"""
SCALED_PIXELS = ("Rescaling", "preprocess_input")


class WrittenFunction(Written):
    """A script with a function for its model, whose rows are not the data's, or unknown.

    The script need not have reached its `fit`. `columns` are a table's, each with whether it
    has texts, `classes` the values of the label in the order of their numbers, () if they are
    unknown.
    """

    def __init__(
        self,
        script: ScriptText,
        recording: Recording,
        columns: Mapping[str, bool],
        classes: Sequence[Any],
    ):
        super().__init__(script, recording)
        self._columns, self._classes = columns, classes

    def take_over(self, folder: Path) -> Json:
        """Return what is taken over, with all faults."""
        del folder
        self._try(self._function)
        if self.recording.line:
            self.settings(None)
        self._weights()
        self._try(self._definitions)
        return self.ended()

    def _function(self) -> None:
        node = self._chosen()
        function = self.recording.variables[node.name]
        line, compiled = node.lineno, self.recording.compiled
        signature = inspect.signature(function)
        is_direct = next(iter(signature.parameters), "") in INPUTS
        if node.name in RESERVED and not is_direct:
            raise ScriptFault(
                f"the function {node.name} has the name of a part of workload.py: give it another",
                line=line,
            )
        self.source.own[node.name] = None
        self.result |= {"is_raw": False, "direct": node.name, "function_line": line}
        if not is_direct:
            self.result |= {"direct": "", **self._call(node, signature.parameters)}
        if not is_direct and compiled[1] and not line <= compiled[1] <= (node.end_lineno or 0):
            call = ", ".join(f"{key}={value}" for key, value in self.compiled().items())
            self.result["end"] = [f"built.compile({call})  # line {compiled[1]}", "return built"]

    def _definitions(self) -> None:
        imports, definitions = self.source.definitions()
        self.result |= {
            "imports": imports,
            "definitions": definitions,
            "values": self.source.values,
        }

    def _chosen(self) -> ast.FunctionDef:
        classes = filter(lambda item: inspect.isclass(item[1]), self.recording.variables.items())
        own = [name for name, value in classes if issubclass(value, keras.Model)]
        builders = list(self.script.builders(("Sequential", "Model", *own)))
        top = [builder for builder in builders if builder in self.script.tree.body]
        if not top:
            raise self._nothing(builders)
        named = [builder for builder in top if "model" in builder.name.lower()]
        chosen = (named or top)[0]
        not_taken = ", ".join(
            f"{builder.name} (line {builder.lineno})" for builder in top if builder is not chosen
        )
        if not_taken:
            self.notes.append(
                f"several functions build a model: {chosen.name} is taken, not {not_taken}; to"
                " change it, change workload.py"
            )
        return chosen

    def _nothing(self, inner: Sequence[ast.FunctionDef]) -> ScriptFault:
        if inner:
            return ScriptFault(
                f"{inner[0].name} is inside another function or a class, where workload.py cannot"
                " call it; move it to the top level of the file",
                line=inner[0].lineno,
            )
        return self.recording.fault or ScriptFault(
            "no function returns a keras.Sequential, a keras.Model or a subclass of it"
        )

    def _call(self, node: ast.FunctionDef, parameters: Mapping[str, inspect.Parameter]) -> Json:
        required = [name for name, arg in parameters.items() if arg.default is arg.empty]
        for name in required:
            if name not in KNOWN:
                remedy = "or call the first one inputs: the Keras inputs of the workload"
                if name == "hp":
                    remedy = "as to units=32, which trainyard tune searches instead of KerasTuner"
                raise ScriptFault(
                    f"{node.name} needs the argument {name!r}: give it a default, {remedy}",
                    line=node.lineno,
                )
        made = self._made(node, required)
        optional = {
            name: arg.default
            for name, arg in parameters.items()
            if isinstance(arg.default, str | int | float | None)
        }
        arguments = [f"{name}={KNOWN[name]}" for name in required]
        arguments += [f"{name}={name}" for name in optional]
        is_by_name = self._takes_columns(made)
        tensor = "columns" if is_by_name else "combined"
        return {
            "settings": "".join(f", {name}={value!r}" for name, value in optional.items()),
            "combines": not is_by_name,
            "model": [
                f"own = {node.name}({', '.join(arguments)})",
                *([BY_NAME] if is_by_name else []),
                f"built = keras.Model(inputs, own({tensor}))",
            ],
            "end": [COMPILED, "return built"],
        }

    def _made(self, node: ast.FunctionDef, required: Sequence[str]) -> Any:
        """Return the function's model; None if it needs arguments that are not known here."""
        if not {*required} <= {*NUM_CLASSES}:
            return None
        function = self.recording.variables[node.name]
        try:
            made = function(**dict.fromkeys(required, len(self._classes)))
        except Exception as error:
            reason = f"{node.name} fails: {type(error).__name__}: {first_line(error)}"
            raise ScriptFault(reason, line=node.lineno) from error
        self.check_train_step(made)
        return made

    def _takes_columns(self, made: Any) -> bool:
        """Return whether a model takes the table's columns, by name; write down what it takes."""
        inputs = getattr(made, "inputs", None) or []
        if len(inputs) == 1 and len(inputs[0].shape) == 4 and None not in inputs[0].shape[1:]:  # noqa: PLR2004
            self.result |= {"size": inputs[0].shape[1:3], "channels": inputs[0].shape[3]}
        is_scaled = any(f"{name}(" in self.script.text for name in SCALED_PIXELS)
        self.result["is_raw"] = is_scaled and bool(self._classes) and not self._columns  # images
        if not inputs or not all(tensor.name in self._columns for tensor in inputs):
            return False
        self.result["is_raw"] = True
        self.result["columns"] = [
            {
                "name": tensor.name,
                "is_text": tensor.dtype == "string",
                "is_filled": False,
                "num_dropped": 0,
            }
            for tensor in inputs
        ]
        return True

    def _weights(self) -> None:
        weights = self.recording.fit.get("class_weight")
        line = self.recording.line
        if weights and max(weights) < len(self._classes):
            self.class_weights(self._classes, weights)
            shown = ", ".join(f"{code} is {self._classes[int(code)]}" for code in weights)
            self.notes.append(
                f"class_weight of fit in line {line}: {shown}, as they are sorted; if that is"
                " wrong, change class_weights in workload.py"
            )
        elif weights:
            self.notes.append(
                f"class_weight of fit in line {line} is not taken over: give class_weights to the"
                " workload"
            )
        if self.recording.fit.get("sample_weight") is not None:
            self.notes.append(
                f"sample_weight of fit in line {line} is not taken over: name a column of the file"
                " as weight in workload.py"
            )
