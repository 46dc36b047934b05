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


def model(inputs):
    net = keras.Sequential(
        [
            inputs,
            layers.Flatten(),
            layers.Dense(16, "tanh"),
            layers.Dense(10, kernel_regularizer=keras.regularizers.L2(1e-3)),
        ]
    )
    net.compile({compile})
    return net


workload = ImageFolder(
    (28, 28),
    channels=1,
    label=Classes(values=tuple(range(10))),
    model=model,
    class_weights={3: 1.5, 9: 2.0},
    callbacks={callbacks},
)
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
