"""A tiny workload of made-up numbers, for a label of any kind and any model."""

from typing import Any

import numpy as np

from trainer.workloads.base import Recipe, Workload
from trainer.workloads.declarations.labels import Binary, Classes, Label, Multilabel, Regression

NUM_INPUTS = 5


class Tiny(Workload):
    """Five numbers and a label that follows from them; `weighted` examples have weights."""

    def __init__(self, label: Label, *, weighted: bool = False):
        recipe = Recipe(learning_rate=0.01)
        super().__init__(label=label, name="tiny", model={"net": self.model_inputs}, recipe=recipe)
        self._is_weighted = weighted

    def default_models(self) -> Any:
        raise NotImplementedError

    def default_recipe(self) -> Recipe:
        raise NotImplementedError

    def model_inputs(self, inputs: Any = None) -> Any:
        raise NotImplementedError

    def parse(self, serialized: Any) -> Any:
        import tensorflow as tf

        is_class = isinstance(self.label, Classes | Binary)
        size = len(self.labels) if isinstance(self.label, Multilabel) else 0
        spec = {
            "x": tf.io.FixedLenFeature([NUM_INPUTS], tf.float32),
            "label": tf.io.FixedLenFeature(
                [size] if size else [], tf.int64 if is_class else tf.float32
            ),
        }
        found = tf.io.parse_example(serialized, spec)
        return {"x": found["x"]}, found["label"]

    def preprocess(self, features: Any) -> Any:
        return features["x"]

    def example_weights(self, features: Any, labels: Any) -> Any:
        import tensorflow as tf

        del labels
        return 1 + tf.abs(features["x"][:, 0]) if self._is_weighted else None

    def evaluation_weights(self, features: Any, labels: Any) -> Any:
        return self.example_weights(features, labels)

    def input_specs(self) -> dict[str, Any]:
        import tensorflow as tf

        return {"x": tf.TensorSpec([None, NUM_INPUTS], tf.float32, name="x")}

    def parse_instance(self, instance: Any) -> Any:
        return {"x": np.asarray(instance["x"], np.float32)}

    def format_instance(self, features: Any) -> Any:
        return {"x": features["x"].tolist()}


def make_examples(label: Label, *, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs [count, NUM_INPUTS] and labels, as `parse` would."""
    random = np.random.default_rng(7)
    inputs = random.normal(size=(count, NUM_INPUTS)).astype(np.float32)
    num = len(label.names_of_classes())
    scores = inputs @ random.normal(size=(NUM_INPUTS, max(num, 1)))
    if isinstance(label, Regression):
        return inputs, np.abs(scores[:, 0]).astype(np.float32)
    if isinstance(label, Multilabel):
        return inputs, (scores > 0).astype(np.float32)
    return inputs, scores.argmax(axis=1).astype(np.int64)
