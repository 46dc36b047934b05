"""What the trainer asks of a workload."""

import abc
from typing import Any, ClassVar

Features = dict[str, Any]


class Workload(abc.ABC):
    """A classification task: its examples, its model and what a prediction request looks like.

    Features are a dict of batched tensors, raw as stored; all preprocessing is in the graph, so
    that the exported model takes raw features as well.
    """

    name: ClassVar[str]
    labels: ClassVar[tuple[str, ...]]
    learning_rate: ClassVar[float]

    @abc.abstractmethod
    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Returns features and int64 labels of a batch of serialized tf.train.Examples."""

    @abc.abstractmethod
    def build_model(self) -> Any:
        """Returns a Keras model from preprocessed inputs to logits [batch, len(labels)]."""

    @abc.abstractmethod
    def preprocess(self, features: Features) -> Any:
        """Returns the model's inputs from raw features."""

    @abc.abstractmethod
    def input_specs(self) -> dict[str, Any]:
        """Returns a tf.TensorSpec by name: what the exported model takes."""

    @abc.abstractmethod
    def parse_instance(self, instance: Any) -> Features:
        """Returns one request's raw features as arrays; ValueError says what is wrong."""

    def augment(self, features: Features, seed: Any) -> Features:
        """Returns the features of a training batch, changed at random from `seed` (int32 [2])."""
        del seed
        return features
