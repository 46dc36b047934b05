"""A recorded script as the source of a workload: its model, what `compile` and `fit` said."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from components.shared.text.value_text import first_of
from pipelines.projects.literals import literal, quoted
from pipelines.projects.scripts.record import VALUES, WEIGHTS
from pipelines.projects.scripts.recorder import Recording
from pipelines.projects.scripts.rows import first
from pipelines.projects.scripts.script_text import ScriptFault
from pipelines.projects.scripts.source import Writer, joined
from trainer import Json

COMPILED = ("loss", "loss_weights", "metrics", "weighted_metrics")
STEPS = ("train_step", "test_step", "compute_loss", "compute_metrics")
# Callbacks whose work a job does itself.
OURS = ("ModelCheckpoint", "TensorBoard", "BackupAndRestore", "History", "ProgbarLogger")
TAKEN = (
    *("x", "y", "verbose", "batch_size", "epochs", "initial_epoch", "steps_per_epoch"),
    *("class_weight", "sample_weight", "callbacks"),
)
DEFAULT_BATCH = 32
NUM_CHECKED = 64
CLOSE = 1e-3
MOST_SHOWN = 12
FROM_FILE = 'Path(__file__).with_name("{}")'
MODEL = '''def model(inputs):
    """Return the model of the fit in line {line} of {file} for the file's own values."""
{body}
'''


class ScriptParts:
    """Parts of a script that a workload takes over, and those it leaves out.

    Attributes:
        result: the fields of `RecordedScript`.
        arguments: of the workload, a line each.
    """

    def __init__(self, recording: Recording):
        keras.config.set_dtype_policy("float32")  # as where the workload is loaded
        self.recording, self.model = recording, recording.model
        self.writer = Writer(recording.script, recording.variables)
        self.notes = recording.notes
        self.arguments = ["raw_inputs=True,"]
        self.result: Json = {"line": recording.line}
        config = getattr(self.model, "_compile_config", None)
        if config is None:
            raise ScriptFault("the model is not compiled before trainyard.fit")
        self.compiled: dict[str, Any] = dict(config.config)
        for name in STEPS:
            owner = next(c for c in type(self.model).__mro__ if name in vars(c))
            if owner.__module__.split(".")[0] != "keras":
                raise ScriptFault(
                    f"{owner.__name__} has its own {name}: write what it computes as a loss, a"
                    " metric or a layer",
                    line=vars(owner)[name].__code__.co_firstlineno,
                )

    def weigh_classes(self, values: Sequence[Any], codes: Sequence[Any]) -> None:
        """Write down the weights of classes, which the script has by their numbers."""
        weights = self.recording.fit_arguments.get("class_weight") or {}
        if weights and not values:
            raise ScriptFault("class_weight is for a label of classes: remove it from fit")
        named = {
            value: np.asarray(weights[code]).item()
            for value, code in zip(values, codes, strict=True)
            if code in weights
        }
        if named:
            self.arguments.append(f"class_weights={literal(named)},")

    def output_size(self, given: Any, label: str) -> int:
        """Return the size of the output that is the label's prediction.

        Raises:
            ScriptFault: there are several, and none is called like the label.
        """
        outputs = self.model(first(given, 2))
        named = outputs if isinstance(outputs, Mapping) else {label: outputs}
        if label not in named or len(keras.tree.flatten(named[label])) > 1:
            raise ScriptFault(
                "the model has several outputs, and a workload one label: give keras.Model a dict"
                f" of outputs, in which {label} is the label's"
            )
        return int(named[label].shape[-1])

    def loss_of(self, label: str) -> Any:
        """Return the loss of the label's output, as compile got it."""
        loss = self.compiled["loss"]
        loss = loss.get(label) if isinstance(loss, Mapping) else loss
        return loss[0] if isinstance(loss, list | tuple) else loss

    def count_from_one_half(self, label: str) -> None:
        """Have "accuracy" of logits count from 0, which is the probability 0.5."""
        metrics = self.compiled["metrics"]
        has_logits = getattr(self.loss_of(label), "from_logits", False)
        for at, name in enumerate(metrics if has_logits and isinstance(metrics, list) else ()):
            if name in ("accuracy", "acc"):
                metrics[at] = keras.metrics.BinaryAccuracy(name=name, threshold=0.0)
                self.notes.append(
                    f"{name} counts logits from 0, the probability 0.5; the script's from 0.5"
                )

    def settings(self, batch: tuple[Any, Any], batch_size: int = DEFAULT_BATCH) -> None:
        """Write down the settings of fit; `batch` has inputs and labels of some rows."""
        recording, fit = self.recording, self.recording.fit_arguments
        epochs, steps = recording.epochs, fit.get("steps_per_epoch")
        length = {"steps": int(steps * epochs)} if steps else {"epochs": int(epochs)}
        self.result["train"] = {**length, "batch_size": int(fit.get("batch_size") or batch_size)}
        if epochs != fit.get("epochs", 1):
            self.notes.append(f"fit is in a loop, or begins late: epochs is {epochs} in all")
        for name in fit:
            if name in TAKEN or (name == "shuffle" and fit[name] is True):
                continue
            why = "it is not taken over"
            if name.startswith("validation_") and fit[name]:
                why = "the eval split takes its place (prepare.ratios in run.yaml)"
            self.notes.append(f"{name} of fit: {why}")
        callbacks = []
        for callback in fit.get("callbacks") or ():
            name = type(callback).__name__
            if name in OURS:
                why = "a job saves checkpoints and TensorBoard's logs"
                self.notes.append(f"{name} is left out: {why}")
                continue
            self._check_monitor(callback, batch)
            callbacks.append(callback)
        if callbacks:
            self.arguments.append(f"callbacks={self.writer.of(callbacks)},")

    def _check_monitor(self, callback: Any, batch: tuple[Any, Any]) -> None:
        """Raise ScriptFault if a callback watches a number that fit does not have."""
        monitor = getattr(callback, "monitor", "loss")
        if monitor == "loss":
            return
        fit = self.recording.fit_arguments
        known = self.model.evaluate(*batch, verbose=0, return_dict=True)
        names = [*known, "learning_rate"]
        if fit.get("validation_split") or fit.get("validation_data") is not None:
            names += [f"val_{name}" for name in known]
        if monitor not in names:
            remedy = "add it to metrics of compile, or watch another"
            if monitor.removeprefix("val_") in known:
                remedy = "give fit validation_split=0.2 or validation_data"
            raise ScriptFault(
                f"{type(callback).__name__} watches {monitor!r}, and fit has {', '.join(names)}:"
                f" {remedy}"
            )

    def write(self, folder: Path, *, inputs: Any, given: Any, own: Any) -> Json:
        """Return the result with the model's source; values and weights are files in a folder.

        Args:
            folder: for files.
            inputs: the expressions of the model's inputs.
            given: x as fit got it, to compare predictions.
            own: the file's own values of these rows, which the workload's model gets.

        Raises:
            ScriptFault: a part has no source, or the source computes other numbers.
        """
        model = self.writer.of(self.model)
        settings = {"optimizer": self.model.optimizer} | {
            name: self.compiled[name] for name in COMPILED if self.compiled.get(name) is not None
        }
        compiled = [f"{key}={self.writer.of(value)}" for key, value in settings.items()]
        body = [f"x = {self.writer.of(inputs)}", f"outputs = {model}(x)"]
        body.append("built = keras.Model(inputs, outputs)")
        imports, definitions = self.writer.definitions()
        built = self._rebuild(body, [*imports, *definitions], given, own)
        if learnt := list(self.writer.learnt):
            self.notes.append(
                f"frozen, as the script has learnt it: {first_of(learnt, MOST_SHOWN)}"
            )
        files = []
        if any(hasattr(weight, "_is_assigned") for weight in self._own_weights()):
            built.save_weights(folder / WEIGHTS)
            self.notes.append(f"{WEIGHTS} has the weights that it sets, or trains before this fit")
            body.append(f"built.load_weights({FROM_FILE.format(WEIGHTS)})")
            files = ["from pathlib import Path"]
        if self.writer.values:
            (folder / VALUES).write_text(json.dumps(self.writer.values, ensure_ascii=False))
            read = f'{FROM_FILE.format(VALUES)}.read_text("utf-8")'
            definitions.insert(0, f"VALUES = json.loads({read})")
            files = ["import json", "from pathlib import Path"]
        body += [joined("built.compile(", compiled, ")"), "return built"]
        imports = [*files, *[""] * bool(files), *dict.fromkeys(["import keras", *imports])]
        function = MODEL.format(
            line=self.recording.line,
            file=quoted(self.recording.script.path.name)[1:-1],
            body=textwrap.indent("\n".join(body), "    "),
        )
        return {
            **self.result,
            "notes": self.notes,
            "imports": "\n".join(imports) + "\n\n",
            "adapter": "\n\n" + "\n\n\n".join([*definitions, function]) + "\n",
            "arguments": textwrap.indent("\n".join(self.arguments), "    ") + "\n",
        }

    def _rebuild(self, body: list[str], definitions: list[str], given: Any, own: Any) -> Any:
        """Return the model that the source builds, with the script's weights.

        Raises:
            ScriptFault: it computes other numbers than the script's model.
        """
        lines = textwrap.indent("\n".join([*body, "return built"]), "    ")
        text = "\n\n".join(["import keras", *definitions, f"def model(inputs):\n{lines}\n"])
        scope: dict[str, Any] = {"__name__": "written", "VALUES": self.writer.values}
        exec(compile(text, "<workload.py>", "exec"), scope)
        tensors = [
            keras.Input(tensor.shape[1:], name="".join(path) or None, dtype=tensor.dtype)
            for path, tensor in keras.tree.flatten_with_path(own)
        ]
        built = scope["model"](keras.tree.pack_sequence_as(own, tensors))
        for weight, same in [*zip(self._own_weights(), built.weights, strict=True)]:
            same.assign(weight.value)
        outputs = self.model(first(given, NUM_CHECKED), training=False), built(own, training=False)
        for wanted, output in zip(*map(keras.tree.flatten, outputs), strict=True):
            size = np.nanmax(np.abs(wanted)) or 1.0
            if not np.allclose(output, wanted, rtol=0, atol=CLOSE * size, equal_nan=True):
                raise ScriptFault(
                    "the layers that would be written compute other numbers than its model; layers"
                    " of half precision (a mixed_float16 policy) may be the reason: remove it"
                )
        return built

    def _own_weights(self) -> list[Any]:
        """Return the weights of the model, except of layers that are written with theirs."""
        return [weight for weight in self.model.weights if id(weight) not in self.writer.written]
