"""A workload file for the digits of `examples_dir` whose model is compiled by its author."""

FILE = '''
import keras
from keras import layers

from trainer.workloads import Classes, ImageFolder


class Counting(keras.optimizers.Optimizer):
    """Add one to a variable of its own in each step: a lost update shows."""

    def build(self, variables):
        super().build(variables)
        self.counts = self.add_optimizer_variables(variables, "count")

    def update_step(self, gradient, variable, learning_rate):
        count = self.counts[self._get_variable_index(variable)]
        self.assign(count, count + 1)
        self.assign_sub(variable, learning_rate * gradient)


def dense(inputs):
    hidden = layers.Dense(16, "tanh")(layers.Flatten()(inputs))
    return layers.Dense(10, kernel_regularizer=keras.regularizers.L2(1e-3))(hidden)


def embed(inputs):
    """Return a vector for each of 49 pixels, by place and shade: a large embedding."""
    shades = keras.ops.cast(layers.Flatten()(inputs[:, ::4, ::4]) * 255, "int32")
    return layers.Embedding(49 * 256, 24, "zeros")(shades + 256 * keras.ops.arange(49))


def embedded(inputs):
    return layers.Dense(10)(keras.ops.sum(embed(inputs), axis=1))


def looked_up(inputs):
    """Return ten weights of each pixel, added up."""
    return keras.ops.mean(embed(inputs)[..., :10], axis=1)


def mean(truth, predicted):
    """A loss that lowers the sum of the embedding by the learning rate in each step."""
    return keras.ops.mean(predicted, axis=-1)


def model(inputs):
    net = keras.Model(inputs, {net}(inputs))
    net.compile({compile})
    return net


workload = ImageFolder(
    (28, 28),
    channels=1,
    label=Classes(values=tuple(range(10))),
    model=model,
    class_weights={weights},
    callbacks={callbacks},
)
'''

SPARSE = "keras.losses.SparseCategoricalCrossentropy(from_logits=True)"


def write_workload(
    folder,
    *,
    optimizer,
    loss=SPARSE,
    metrics="['accuracy']",
    callbacks="()",
    net="dense",
    weights="{3: 1.5, 9: 2.0}",
):
    """Write the file; return the folder, which is the workload's reference."""
    folder = folder / "mnist"
    folder.mkdir(parents=True, exist_ok=True)
    compile_ = f"optimizer={optimizer}, loss={loss}, metrics={metrics}"
    text = FILE
    given = {"compile": compile_, "callbacks": callbacks, "net": net, "weights": weights}
    for name, value in given.items():
        text = text.replace("{" + name + "}", value)
    (folder / "workload.py").write_text(text)
    return folder
