"""Tumours, as a script with `fit`: python before.py data/tumours.csv."""

import sys

import keras
import numpy as np

table = np.genfromtxt(sys.argv[1], delimiter=",", skip_header=1)
np.random.default_rng(0).shuffle(table)
x, y = table[:, :-1], table[:, -1]
x = (x - x.mean(axis=0)) / x.std(axis=0)

inputs = keras.Input([x.shape[1]])
hidden = keras.layers.Dense(32, activation="relu")(inputs)
hidden = keras.layers.Dropout(0.3)(hidden)
model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
model.compile(
    optimizer=keras.optimizers.AdamW(3e-3, weight_decay=0.01),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
)
model.fit(x, y, batch_size=32, epochs=20, validation_split=0.2, verbose=2)
model.save("tumours.keras")
