"""What the trainer asks of a workload."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

Features = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained well.

    `learning_rate` is the peak of a one-cycle schedule that rises for the share `warmup` of all
    steps. `weight_decay` is decoupled, times the learning rate, and spares biases and norms.
    `average_decay` above 0 measures and exports a moving average of the weights.
    """

    learning_rate: float
    optimizer: str = "adam"
    warmup: float = 0.15
    weight_decay: float = 0.0
    label_smoothing: float = 0.0
    average_decay: float = 0.0


class Workload(abc.ABC):
    """A classification task: its examples, its model and what a prediction request looks like.

    Features are a dict of batched tensors, raw as stored; all preprocessing is in the graph, so
    that the exported model takes raw features as well.
    """

    name: ClassVar[str]
    labels: ClassVar[tuple[str, ...]]
    recipe: ClassVar[Recipe]
    num_noise: ClassVar[int] = 0

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

    def augment(self, features: Features, noise: Any) -> Features:
        """Returns the features of a training batch, changed at random.

        `noise` holds `num_noise` numbers in [0, 1) for each example.
        """
        del noise
        return features
