"""A workload file for the digits of `examples_dir` whose model is compiled by its author."""

FILE = '''
import keras
from keras import layers

from trainer.workloads.mnist import Mnist


class Counting(keras.optimizers.Optimizer):
    """Add one to a variable of its own in each step: a lost update shows."""

    def build(self, variables):
        super().build(variables)
        self.counts = self.add_optimizer_variables(variables, "count")

    def update_step(self, gradient, variable, learning_rate):
        count = self.counts[self._get_variable_index(variable)]
        self.assign(count, count + 1)
        self.assign_sub(variable, learning_rate * gradient)


class Compiled(Mnist):
    callbacks = {callbacks}

    def build_model(self, model=""):
        net = keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                layers.Flatten(),
                layers.Dense(16, "tanh"),
                layers.Dense(10, kernel_regularizer=keras.regularizers.L2(1e-3)),
            ]
        )
        net.compile({compile})
        return net

    def example_weights(self, features, labels):
        import tensorflow as tf

        return 1 + tf.cast(labels, tf.float32) / 10


workload = Compiled()
'''

SPARSE = "keras.losses.SparseCategoricalCrossentropy(from_logits=True)"


def write_workload(folder, *, optimizer, loss=SPARSE, metrics="['accuracy']", callbacks="()"):
    """Write the file; return the folder, which is the workload's reference."""
    folder = folder / "mnist"
    folder.mkdir(parents=True, exist_ok=True)
    compile_ = f"optimizer={optimizer}, loss={loss}, metrics={metrics}"
    text = FILE.replace("{compile}", compile_).replace("{callbacks}", callbacks)
    (folder / "workload.py").write_text(text)
    return folder
