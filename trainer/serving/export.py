"""The exported model: writing it, loading it and predicting with it."""

import contextlib
import gc
import keyword
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import Json
from trainer.config.trust import STRANGER, Trust
from trainer.errors import TrainerError, first_line
from trainer.metrics.decision import DecisionRule
from trainer.runtime.files import delete_folder, read_json, write_json
from trainer.runtime.tracing import traced
from trainer.serving.compiled import COMPILED, CompiledScore
from trainer.serving.digests import DIGESTS_FILE, check_files, write_digests
from trainer.serving.function_names import renumber_functions
from trainer.serving.outputs import main_output, output_kind
from trainer.serving.outside_operations import check_graph
from trainer.serving.rows import check_finite, find_signature, make_zeros, predict_rows
from trainer.serving.strict_json import finite
from trainer.workloads.base import Workload
from trainer.workloads.declarations.names import distinct_names
from trainer.workloads.description import UntrustedCodeError, describe, read_description
from trainer.workloads.models.line import Line

logger = logging.getLogger(__name__)

LOAD_ERRORS = (tf.errors.OpError, OSError, ValueError, LookupError, TypeError)

DESCRIPTION_FILE = "workload.json"
GRAPH_FILE = "saved_model.pb"
SIGNATURE = "serving_default"
EXAMPLES_SIGNATURE = "examples"
LINE_SIGNATURE = "line"
_Resource = tf.saved_model.experimental.TrackableResource
_FIRST = ("class", "label", "labels", "probabilities", "value")


class Predictor:
    """A loaded model; safe to use from many threads.

    `decision` has the fields of its Decision, {} for a label without classes.
    """

    def __init__(self, loaded: Any, workload: Workload, decision: Json | None = None):
        self._loaded = loaded  # keeps the variables alive
        self._predict = loaded.signatures[SIGNATURE]
        self._arguments = argument_names(workload.input_specs())
        self._hook = workload.postprocess
        self.workload, self.decision = workload, decision or {}

    def warm_up(self) -> None:
        """Make a first prediction, which is slow."""
        self.predict_batch(make_zeros(self.workload.input_specs()))

    def compiled_score(self) -> CompiledScore | None:
        """Return the loss and metrics that the model was compiled with, before any example."""
        module = getattr(self._loaded, COMPILED, None)
        return CompiledScore(module) if module is not None else None

    def predict(
        self, instances: list[Any], signature: str = SIGNATURE
    ) -> list[dict[str, Any]] | list[Any]:
        """Return a prediction for each instance, with its `key` if it has one.

        Its fields follow from the label: `class`, `label` and `probabilities` for Binary and
        Classes, `labels` and `probabilities` for Multilabel, `value` for Regression; and each
        further output of the model by its name.
        """
        if not instances:
            return []
        if signature != SIGNATURE:
            return predict_rows(find_signature(self._loaded, signature), instances)
        outputs = self.predict_batch(self.workload.parse_instances(instances))
        check_finite(outputs, range(len(instances)))
        predictions = self.predictions_of(outputs)
        for instance, prediction in zip(instances, predictions, strict=True):
            if isinstance(instance, dict) and "key" in instance:
                prediction["key"] = instance["key"]
        return predictions

    def prediction_specs(self) -> dict[str, tf.TensorSpec] | None:
        """Return the specs of a batch of predictions by field; None if a hook changes them."""
        return None if self._hook else _ordered(self._predict.structured_outputs)

    def predictions_of(self, outputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
        """Return the prediction of each row of the outputs of `predict_batch`, for JSON."""
        predictions = as_predictions(outputs)
        if self._hook is None:
            return predictions
        changed = list(map(self._hook, predictions))
        if wrong := [prediction for prediction in changed if not isinstance(prediction, dict)]:
            raise TrainerError(  # it could have no key
                f"postprocess of {self.workload.name} returned {wrong[0]!r:.60}; it must return a"
                " dict, as {'price': 3.5}"
            )
        return changed

    def predict_batch(self, features: dict[str, Any]) -> dict[str, np.ndarray]:
        """Return the outputs of the model for a batch of raw features, by name.

        They are class, label and probabilities, or follow from another kind of label: see
        `predict`.
        Columns that are no inputs, such as weights, are left out.
        """
        predicted = self._predict(**self._tensors(features))
        return {name: output.numpy() for name, output in predicted.items()}

    def predict_values(self, features: Mapping[str, Any]) -> np.ndarray:
        """Return the values [batch] of a Regression, else probabilities [batch, labels]."""
        return self.predict_batch(dict(features))[self.workload.label.evaluated]

    @property
    def has_line(self) -> bool:
        """True if the model has a line beside its net."""
        return LINE_SIGNATURE in self._loaded.signatures

    def predict_line(self, features: Mapping[str, Any]) -> np.ndarray:
        """Return what the line alone predicts, as `predict_values` does."""
        line = self._loaded.signatures[LINE_SIGNATURE]
        return line(**self._tensors(features))[self.workload.label.evaluated].numpy()

    def _tensors(self, features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Return the arguments of a signature: columns that are no inputs are left out."""
        return {
            self._arguments[name]: tf.constant(column)
            for name, column in features.items()
            if name in self._arguments
        }


class _ServedModel(tf.Module):
    """The graph of the exported model: raw features in, predictions out."""

    def __init__(
        self,
        workload: Workload,
        model: Any,
        decision: DecisionRule,
        line: Line | None,
        compiled: tf.Module | None,
    ):
        super().__init__()
        self._variables = [variable.value for variable in model.variables]
        if compiled is not None:
            setattr(self, COMPILED, compiled)
        self._labels = tf.constant(workload.labels, tf.string)
        # Hidden from tf.saved_model, which would save Keras' objects too.
        self._keras: Callable[[], Any] = lambda: model
        self._workload, self._decision, self._line = workload, decision, line
        self._arguments = argument_names(workload.input_specs())

    def signatures(self) -> dict[str, Any]:
        specs = {
            name: tf.TensorSpec(spec.shape, spec.dtype, name=name)
            for name, spec in self._by_argument(self._workload.input_specs()).items()
        }
        with _kept_resources() as made:
            self._encode = traced(self._encoded).get_concrete_function(**specs)
            serve = traced(self._serve).get_concrete_function(**specs)
        self._captured = _captured(serve, made)
        signatures = {
            SIGNATURE: serve,
            EXAMPLES_SIGNATURE: traced(
                lambda examples: self._serve_examples(examples, serve)
            ).get_concrete_function(tf.TensorSpec([None], tf.string, name="examples")),
        }
        if line := self._line:
            alone = traced(lambda **arguments: self._serve_line(line, arguments))
            signatures[LINE_SIGNATURE] = alone.get_concrete_function(**specs)
        return signatures

    def _by_argument(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {argument: features[name] for name, argument in self._arguments.items()}

    def _encoded(self, **arguments: tf.Tensor) -> Any:
        features = {name: arguments[argument] for name, argument in self._arguments.items()}
        return self._workload.encode(self._workload.plain_features(features))

    def _serve_line(self, line: Line, arguments: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        label, outputs = self._workload.label, line.outputs(self._encode(**arguments))
        predictions = label.predictions(outputs, has_logits=True)
        return label.served(predictions, self._decision, self._labels)

    def _serve(self, **arguments: tf.Tensor) -> dict[str, tf.Tensor]:
        encoded = self._encode(**arguments)
        inside = self._line.inside(encoded) if self._line else encoded
        inputs = self._workload.preprocess(inside)
        return self._predictions(self._keras()(inputs, training=False), encoded)

    def _predictions(self, outputs: Any, encoded: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        main = main_output(outputs, self._workload)
        predictions = self._predictions_of_label(main, encoded)
        named_outputs = outputs if isinstance(outputs, Mapping) else {}
        for name, output in named_outputs.items():
            if name != self._workload.label.column:
                predictions.setdefault(name, output)
        return predictions

    def _predictions_of_label(
        self, output: tf.Tensor, encoded: Mapping[str, Any]
    ) -> dict[str, tf.Tensor]:
        label, decision = self._workload.label, self._decision
        has_logits = output_kind(self._keras(), self._workload).has_logits
        predictions = label.predictions(output, has_logits=has_logits)
        if self._line:
            line, added = self._line.parts(encoded, label.logits(predictions))
            blended = line + decision.net_share * added
            predictions = label.predictions(blended, has_logits=True)
        if decision.is_calibrated:
            logits = label.logits(predictions) / decision.temperature
            predictions = label.predictions(logits, has_logits=True)
        return label.served(predictions, decision, self._labels)

    def _serve_examples(self, examples: tf.Tensor, serve: Any) -> dict[str, tf.Tensor]:
        features, _ = self._workload.parse(examples)
        key = tf.io.parse_example(examples, {"key": tf.io.FixedLenFeature([], tf.string, "")})
        return {**serve(**self._by_argument(features)), **key}


def _captured(function: Any, made: Iterable[Any]) -> list[Any]:
    """Return the variables and lookup tables that a concrete function captures, in its order.

    The graph's own list of variables has another order in each process, and so would the files.
    Of a table a function has the handle only. Its object may be anywhere: in a layer, in a variable
    of the user's file, in a closure; or `made` while the function was traced.
    """
    inputs = [id(handle) for handle in function.captured_inputs if handle.dtype == tf.resource]
    variables = {id(variable.handle): variable for variable in function.graph.variables}
    tables = {id(table._resource_handle): table for table in made}
    if {*inputs} - variables.keys() - tables.keys():  # rare, since it takes half a second
        gc.unfreeze()  # objects of the user's file may be as old as TensorFlow's
        tables = {
            id(getattr(table, "_resource_handle", None)): table
            for table in gc.get_objects()
            if issubclass(type(table), _Resource)
        }
    owners = tables | variables
    for number, handle in enumerate(handle for handle in inputs if handle in tables):
        # Else a random number, or the path of the vocabulary's file.
        tables[handle]._shared_name = f"table_{number}"
    return [owners[handle] for handle in inputs if handle in owners]


@contextlib.contextmanager
def _kept_resources() -> Iterator[list[Any]]:
    """Keep the tables that are made meanwhile; a traced function would lose its tables."""
    made: list[Any] = []
    initialize = _Resource.__init__

    def initialize_and_keep(self: Any, *args: Any, **settings: Any) -> None:
        initialize(self, *args, **settings)
        made.append(self)

    _Resource.__init__ = initialize_and_keep
    try:
        yield made
    finally:
        _Resource.__init__ = initialize


def argument_names(features: Iterable[str]) -> dict[str, str]:
    """Return the name of each feature in the signature, which TensorFlow would else make up.

    A signature's inputs are parameters of a Python function, and a SavedModel ignores their case.
    """
    reserved = {"self", *map(str.lower, keyword.kwlist)}
    return distinct_names(list(features), _readable, taken=reserved, same=str.lower)


def _readable(name: str) -> str:
    """Return a name in the signature, which must begin with a letter."""
    made = re.sub("[^A-Za-z0-9_]", "_", name).lstrip("_")
    return made if made[:1].isalpha() else f"input_{made}".rstrip("_")


def export_model(
    model: Any,
    workload: Workload,
    model_dir: str,
    *,
    decision: DecisionRule | None = None,
    line: Line | None = None,
    compiled: tf.Module | None = None,
) -> None:
    """Write the SavedModel to a folder beside `model_dir`, then rename it: never half a model.

    `decision` is the step from what the net predicts to predictions; default: the likeliest class.
    `line` is the linear model beside the net.
    `compiled` computes the loss and the metrics that the model is compiled with, see CompiledScore.
    """
    decision = decision or DecisionRule()
    model_dir = model_dir.rstrip("/")
    # May be on gs://, so only gfile can access it.
    temporary = f"{model_dir}.writing-{os.getpid()}"
    # Of layers such as dropout, which serving does not use: Keras draws them at random when it
    # builds a model, and equal models shall have equal files.
    for variable in model.non_trainable_variables:
        if variable.name == "seed_generator_state":
            variable.assign(variable * 0)
    served = _ServedModel(workload, model, decision, line, compiled)
    try:
        tf.saved_model.save(served, temporary, signatures=served.signatures())
        renumber_functions(f"{temporary}/saved_model.pb")
        decided = {"decision": asdict(decision)} if decision != DecisionRule() else {}
        content = finite(describe(workload) | decided)
        write_json(f"{temporary}/{DESCRIPTION_FILE}", content)
        write_digests(temporary, _files_in(temporary))
        _replace_folder(temporary, model_dir)
    finally:
        delete_folder(temporary)


def load_predictor(model_dir: str, *, trust: Trust = STRANGER, beside: str = "") -> Predictor:
    """Return the predictor of an exported model; TrainerError if it cannot be loaded.

    `beside` is the reference of the caller's own workload, see `is_own_code`.
    """
    path = f"{model_dir.rstrip('/')}/{DESCRIPTION_FILE}"
    try:
        is_checked = bool(check_files(model_dir))
        description = read_json(path)
        workload = read_description(description, trusts_code=trust.code, beside=beside)
    except UntrustedCodeError as error:
        raise TrainerError(f"{path}: {error}") from error
    except LOAD_ERRORS as error:
        raise unloadable(path, error) from error
    if not is_checked:
        logger.warning(
            "the files of %s are not checked: %s, which earlier versions did not write, is missing",
            model_dir,
            DIGESTS_FILE,
        )
    try:
        return Predictor(load_model(model_dir, trust), workload, description.get("decision"))
    except LOAD_ERRORS as error:
        raise unloadable(model_dir, error) from error


def unloadable(path: str, error: Exception) -> TrainerError:
    """Return the error for a model, or a file of it, that cannot be loaded."""
    return TrainerError(
        f"cannot load a model from {path!r}: {first_line(error)}; if a file is missing or damaged, "
        "export or copy the model again"
    )


def load_model(model_dir: str, trust: Trust) -> Any:
    """Return a SavedModel, whose graph is checked before if its author is not trusted.

    Raises:
        TrainerError: it reaches outside the model.
        tf.errors.OpError: it cannot be read.
    """
    if not trust.graph:
        with tf.io.gfile.GFile(f"{model_dir.rstrip('/')}/{GRAPH_FILE}", "rb") as file:
            check_graph(file.read(), model_dir=model_dir)
    return tf.saved_model.load(model_dir)


def is_foreign(model_dir: str) -> bool:
    """Return whether the folder holds a SavedModel exported by another program."""
    folder, exists = model_dir.rstrip("/"), tf.io.gfile.exists
    own = (DESCRIPTION_FILE, DIGESTS_FILE)
    return exists(f"{folder}/{GRAPH_FILE}") and not any(exists(f"{folder}/{name}") for name in own)


def as_predictions(outputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return the prediction of each row of the outputs, for JSON."""
    ordered = {name: _as_json(name, output) for name, output in _ordered(outputs).items()}
    return [dict(zip(ordered, row, strict=True)) for row in zip(*ordered.values(), strict=True)]


def _ordered(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs with those that every model may have first."""
    return {**{name: outputs[name] for name in _FIRST if name in outputs}, **outputs}


def _as_json(name: str, output: np.ndarray) -> list[Any]:
    if name == "labels" and output.dtype == object and len(output.shape[1:]) == 1:
        return [[label.decode() for label in row if label] for row in output]
    if output.dtype == object:
        return np.vectorize(lambda text: text.decode(errors="replace"), otypes=[object])(
            output
        ).tolist()
    return output.tolist()


def _files_in(folder: str) -> list[str]:
    """Return the paths of all files in a folder, relative to it."""
    walked = tf.io.gfile.walk(folder)
    files = [f"{parent.rstrip('/')}/{name}" for parent, _, names in walked for name in names]
    return [path.removeprefix(f"{folder}/") for path in files]


def _replace_folder(new: str, target: str) -> None:
    old = f"{new}-old"
    if tf.io.gfile.exists(target):
        tf.io.gfile.rename(target, old)
    tf.io.gfile.rename(new, target)
    delete_folder(old)
