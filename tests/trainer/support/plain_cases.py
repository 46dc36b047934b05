"""Models and settings that are trained by `fit` and by ours: see test_as_fit."""

import tempfile

import keras
import numpy as np
from keras import callbacks, layers, losses, optimizers

from tests.trainer.support.plain_fit import FLAGS, NUMBER, YES, Case

SPARSE = losses.SparseCategoricalCrossentropy(from_logits=True)
PARTS = r"neither the mean nor the sum"
FLOAT16 = r"float16 is not supported.*bfloat16"


def dense(units=3, activation=None, **options):
    """Return layers from inputs to outputs: a hidden one and the last."""

    def call(inputs):
        hidden = layers.Dense(6, "tanh", **options)(inputs["x"])
        return layers.Dense(units, activation, name="last")(hidden)

    return call


def net(call=None, optimizer=lambda: optimizers.Adam(0.01), *, kind=keras.Model, **compiled):
    """Return a function that builds and compiles a small model; the loss is SPARSE by default."""

    def build(inputs):
        model = kind(inputs, (call or dense())(inputs))
        model.compile(optimizer=optimizer(), **{"loss": SPARSE, **compiled})
        return model

    return build


def sgd(**compiled):
    """Return a function that builds a model trained by SGD."""
    return net(None, lambda: optimizers.SGD(0.1), metrics=["accuracy"], **compiled)


def one_hot(labels):
    """Return the targets of losses that are not sparse."""
    return np.eye(3, dtype=np.float32)[labels]


def column(labels):
    """Return the targets of outputs [batch, 1]."""
    return labels[:, np.newaxis].astype(np.float32)


def halve(epoch):
    """Return a rate for each epoch."""
    return 0.1 * 0.5**epoch


def own_loss(truth, predicted):
    """A function of the user's own: per example, as Keras expects it."""
    return keras.ops.mean(keras.ops.abs(truth - predicted) ** 1.5, axis=-1)


def cosine(**options):
    """Return SGD with a schedule."""
    schedule = optimizers.schedules.CosineDecay(0.05, decay_steps=12)
    return optimizers.SGD(schedule, momentum=0.9, nesterov=True, **options)


def excluding():
    """Return AdamW that does not decay biases."""
    optimizer = optimizers.AdamW(0.01, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


class OwnOptimizer(optimizers.Optimizer):
    """Gradient descent with steps of the layer's norm."""

    def update_step(self, gradient, variable, learning_rate):
        norm = keras.ops.sqrt(keras.ops.sum(keras.ops.square(gradient))) + 1e-3
        self.assign_sub(variable, learning_rate * gradient / norm)


class OwnLoss(keras.Model):
    """A model whose loss looks at its inputs, too."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        del sample_weight, training
        return keras.ops.mean((y - y_pred) ** 2 * (1 + x["x"][:, :1] ** 2)) + sum(self.losses)


class OwnStep(keras.Model):
    """A model with a train step of its own."""

    def train_step(self, data):
        raise NotImplementedError


class Penalty(layers.Layer):
    """A layer that adds a loss."""

    def call(self, inputs):
        self.add_loss(0.1 * keras.ops.mean(inputs**2))
        return inputs


def penalized(inputs):
    """Layers with every kind of penalty."""
    hidden = layers.Dense(6, kernel_regularizer="l2", activity_regularizer="l1")(inputs["x"])
    return layers.Dense(3, kernel_constraint=keras.constraints.MaxNorm(0.5))(Penalty()(hidden))


def normalized(inputs):
    """Layers whose state is of the whole batch."""
    return layers.Dense(3)(layers.BatchNormalization()(layers.Dense(6)(inputs["x"])))


def masked(inputs):
    """A text of five words: masked, embedded, and read by a recurrent layer."""
    ids = keras.ops.cast(keras.ops.abs(inputs["x"]) * 2, "int32")
    hidden = layers.LSTM(4)(layers.Embedding(12, 3, mask_zero=True)(ids))
    return layers.Dense(3)(hidden)


def preprocessed(inputs):
    """Layers that know the data: adapted, with bins, with a vocabulary."""
    scale = layers.Normalization()
    scale.adapt(np.random.default_rng(0).normal(1, 2, (50, 5)).astype(np.float32))
    first = inputs["x"][:, :1]
    bins = layers.Discretization([-1.0, 0.0, 1.0], output_mode="one_hot")(first)
    number = keras.ops.cast(keras.ops.abs(first), "int32")
    known = layers.IntegerLookup(vocabulary=[0, 2], output_mode="one_hot")(number)
    return layers.Dense(3)(layers.Concatenate()([scale(inputs["x"]), bins, known]))


def frozen(inputs):
    """A layer that is not trained."""
    return layers.Dense(3)(layers.Dense(6, trainable=False)(inputs["x"]))


def two_outputs(inputs):
    """The output of the label, and another one."""
    hidden = layers.Dense(6, "tanh")(inputs["x"])
    return {"label": layers.Dense(3)(hidden), "embedding": hidden}


def stopping(**options):
    """Return a function that makes an EarlyStopping."""
    return lambda: [callbacks.EarlyStopping(patience=2, **options)]


def writing():
    """Return the callbacks that write files."""
    folder = tempfile.mkdtemp()
    return [
        callbacks.CSVLogger(f"{folder}/log.csv"),
        callbacks.ModelCheckpoint(f"{folder}/best.keras", save_best_only=True),
        callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None),
        callbacks.History(),
    ]


CASES = (
    Case(
        says={
            "loss": ["SparseCategoricalCrossentropy"],
            "metrics": ["names"],
            "optimizer": ["Adam"],
            "epochs, batch_size": ["the same steps, also where the last batch is smaller"],
            "validation_data, validation_split": ["the eval split"],
        },
        build=net(None, lambda: optimizers.Adam(0.01, amsgrad=True), metrics=["accuracy"]),
    ),
    Case(
        says={"loss": ["of probabilities, after softmax"], "optimizer": ["SGD, with schedules"]},
        build=net(
            dense(3, "softmax"),
            lambda: cosine(clipnorm=0.2),
            loss="sparse_categorical_crossentropy",
        ),
    ),
    Case(
        says={"loss": ["CategoricalFocalCrossentropy"], "optimizer": ["AdamW, global_clipnorm"]},
        build=net(
            dense(3, "softmax"),
            lambda: optimizers.AdamW(0.01, weight_decay=0.1, global_clipnorm=0.5),
            loss=losses.CategoricalFocalCrossentropy(),
        ),
        targets=one_hot,
    ),
    Case(
        says={
            "loss": ["CategoricalCrossentropy", "from_logits=True after softmax (ignored)"],
            "optimizer": ["Nadam"],
        },
        build=net(
            dense(3, "softmax"),
            lambda: optimizers.Nadam(0.005),
            loss=losses.CategoricalCrossentropy(from_logits=True),
        ),
        targets=one_hot,
    ),
    Case(
        says={
            "loss": ["BinaryCrossentropy"],
            "optimizer": ["RMSprop", "use_ema (callbacks see the averages)"],
        },
        label=YES,
        build=net(
            dense(1, "sigmoid"),
            lambda: optimizers.RMSprop(0.003, momentum=0.5, use_ema=True, ema_momentum=0.9),
            loss="binary_crossentropy",
        ),
        targets=column,
        compares_calls=False,
    ),
    Case(
        says={"loss": ["of several labels at once"], "optimizer": ["Lamb"]},
        label=FLAGS,
        build=net(
            dense(), lambda: optimizers.Lamb(0.01), loss=losses.BinaryCrossentropy(from_logits=True)
        ),
    ),
    Case(
        says={"loss": ["mse, mae and other numbers"], "optimizer": ["Adafactor"]},
        label=NUMBER,
        build=net(dense(1), lambda: optimizers.Adafactor(0.01), loss="mse", metrics=["mae"]),
        targets=column,
    ),
    Case(
        says={"loss": ["reduction='sum'"], "optimizer": ["Adagrad"]},
        label=NUMBER,
        build=net(dense(1), lambda: optimizers.Adagrad(0.1), loss=losses.Huber(reduction="sum")),
        targets=column,
        compares_calls=False,
    ),
    Case(
        says={"loss": ["functions of your own"], "optimizer": ["Ftrl"]},
        label=NUMBER,
        build=net(dense(1), lambda: optimizers.Ftrl(0.05), loss=own_loss),
        targets=column,
    ),
    Case(
        says={"loss_weights": ["a number"], "optimizer": ["Lion"]},
        build=net(None, lambda: optimizers.Lion(0.002, weight_decay=0.01), loss_weights=2.0),
    ),
    Case(
        says={
            "optimizer": ["Adadelta"],
            "run_eagerly, steps_per_execution": ["without effect on the result"],
            "layers": ["trainable=False"],
        },
        build=net(
            frozen, lambda: optimizers.Adadelta(1.0), steps_per_execution=3, run_eagerly=True
        ),
    ),
    Case(
        says={
            "optimizer": ["Adamax", "clipvalue"],
            "layers": ["regularizers, constraints, add_loss"],
        },
        build=net(penalized, lambda: optimizers.Adamax(0.01, clipvalue=0.05)),
    ),
    Case(
        says={
            "optimizer": ["Muon"],
            "class_weight": ["as `class_weights`, also together with a `weight`"],
        },
        build=net(
            None, lambda: optimizers.Muon(0.01, exclude_layers=["last"]), metrics=["accuracy"]
        ),
        class_weights={0: 1.0, 1: 3.0, 2: 0.5},
    ),
    Case(
        says={
            "optimizer": ["gradient_accumulation_steps"],
            "sample_weight": ["as `weight`"],
            "weighted_metrics": ["names"],
        },
        build=net(
            None,
            lambda: optimizers.Adam(
                0.01, gradient_accumulation_steps=4, weight_decay=0.1, clipnorm=0.3
            ),
            metrics=["accuracy"],
            weighted_metrics=["accuracy"],
        ),
        weighted=True,
    ),
    Case(
        says={
            "optimizer": ["ema_overwrite_frequency"],
            "jit_compile": ["True, on CPUs; on GPUs as `--jit`"],
        },
        build=net(
            None,
            lambda: optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=5),
            jit_compile=True,
        ),
        compares_calls=False,
    ),
    Case(
        says={
            "optimizer": ["exclude_from_weight_decay"],
            "loss": ["by output, of the label's output"],
            "metrics": ["by output"],
        },
        build=net(two_outputs, excluding, loss={"label": SPARSE}, metrics={"label": ["accuracy"]}),
        targets=lambda labels: {"label": labels, "embedding": np.zeros((len(labels), 6))},
    ),
    Case(
        says={
            "optimizer": ["your own, with update_step"],
            "layers": ["adapted and lookup layers"],
        },
        build=net(preprocessed, lambda: OwnOptimizer(0.05)),
    ),
    Case(
        says={"optimizer": ["LossScaleOptimizer"]},
        build=net(None, lambda: optimizers.LossScaleOptimizer(optimizers.SGD())),
        refusal=FLOAT16,
    ),
    Case(
        says={"loss": ["reduction='mean_with_sample_weight' (one device)"]},
        label=NUMBER,
        build=net(dense(1), loss=losses.MeanSquaredError(reduction="mean_with_sample_weight")),
        targets=column,
        weighted=True,
        parts_refusal=PARTS,
    ),
    Case(
        says={"loss": ["ignore_class (one device)"]},
        build=net(loss=losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)),
        parts_refusal=PARTS,
    ),
    Case(
        says={"loss": ["of probabilities after a linear layer"]},
        build=net(loss="sparse_categorical_crossentropy"),
        refusal=r"takes probabilities.*is linear",
    ),
    Case(
        says={"layers": ["BatchNormalization (statistics of a part, if a batch has parts)"]},
        build=net(normalized, lambda: optimizers.SGD(0.1)),
        has_parts=False,
    ),
    Case(
        says={"layers": ["Embedding, masks, recurrent layers"]},
        build=net(masked, lambda: optimizers.SGD(0.1)),
    ),
    Case(
        says={"layers": ["float16, `mixed_float16`"]},
        build=net(dense(dtype="mixed_float16")),
        refusal=FLOAT16,
    ),
    Case(
        says={"loss": ["of another output"]},
        build=net(two_outputs, loss={"label": SPARSE, "embedding": "mse"}),
        refusal=r"loss for the output 'embedding'",
    ),
    Case(
        says={"methods": ["compute_loss"]},
        label=NUMBER,
        build=net(dense(1), kind=OwnLoss, loss=None),
        targets=column,
    ),
    Case(
        says={"methods": ["train_step, test_step"]},
        build=net(kind=OwnStep),
        refusal=r"train_step.*compute_loss",
    ),
    Case(
        says={"callbacks": ["LearningRateScheduler"]},
        build=sgd(),
        callbacks=lambda: [callbacks.LearningRateScheduler(halve)],
        epochs=6,
    ),
    Case(
        says={"callbacks": ["ReduceLROnPlateau", "EarlyStopping"]},
        build=sgd(),
        callbacks=lambda: [
            callbacks.ReduceLROnPlateau(patience=1, min_delta=0.2),
            *stopping(min_delta=0.5)(),
        ],
        epochs=9,
    ),
    Case(
        says={"callbacks": ["restore_best_weights"]},
        build=sgd(),
        callbacks=stopping(monitor="val_accuracy", min_delta=0.05, restore_best_weights=True),
        epochs=12,
    ),
    Case(
        says={},
        build=sgd(),
        callbacks=stopping(monitor="val_accuracy", min_delta=0.5, restore_best_weights=True),
    ),
    Case(
        says={"callbacks": ["CSVLogger, ModelCheckpoint, LambdaCallback, History"]},
        build=sgd(),
        callbacks=writing,
        writes_files=True,
    ),
    Case(
        says={"callbacks": ["hooks of batches are not called, and the log says so"]},
        build=sgd(),
        callbacks=lambda: [callbacks.TensorBoard(tempfile.mkdtemp()), callbacks.TerminateOnNaN()],
        writes_files=True,
        is_other=True,
    ),
    Case(
        says={"callbacks": ["BackupAndRestore (a job that is killed resumes)"]},
        build=sgd(),
        callbacks=lambda: [callbacks.BackupAndRestore(tempfile.mkdtemp())],
        writes_files=True,
        refusal=r"BackupAndRestore.*checkpoints",
    ),
    Case(
        says={"callbacks": ["SwapEMAWeights (evaluations are of the averages)"]},
        build=net(None, lambda: optimizers.Adam(0.01, use_ema=True)),
        callbacks=lambda: [callbacks.SwapEMAWeights()],
        refusal=r"SwapEMAWeights.*averages",
    ),
    Case(
        says={"callbacks": ["those that change a rate that has a schedule"]},
        build=net(None, cosine),
        callbacks=lambda: [callbacks.LearningRateScheduler(halve)],
        refusal=r"LearningRateScheduler changes the learning rate",
    ),
)
