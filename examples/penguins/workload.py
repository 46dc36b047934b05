"""Penguins: tell three species by their measures, from TFRecords that TFX has written.

Data: Gorman, Williams and Fraser (2014), "palmerpenguins", in the wheel of TFX, whose tests use it;
numbers are scaled to 0 to 1 already.
"""

from trainyard import Classes, Recipe, Records, Values

MEASURES = ("culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g")


def net(inputs, *, units: int = 16):
    """Return a net of one hidden layer; `inputs` are Keras inputs of shape [1] by feature."""
    import keras

    x = keras.layers.concatenate([inputs[name] for name in MEASURES])
    x = keras.layers.Dense(units, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(3)(x))


workload = Records(
    {name: Values("float32", [1]) for name in MEASURES},
    label=Classes("species", values=(0, 1, 2), names=("Adelie", "Chinstrap", "Gentoo")),
    model=net,
    recipe=Recipe(learning_rate=1e-2, min_steps=400),
)
