"""Penguins: tell three species by their measures, from TFRecords that TFX has written.

Data: Gorman, Williams and Fraser (2014), "palmerpenguins", in the wheel of TFX, whose tests use it;
numbers are scaled to 0 to 1 already.
"""

from trainer.workloads import Classes, PipWheel, Recipe, Records, Source, SourceFile, Values

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
    source=Source(
        title="The penguins of TFX",
        files=(
            SourceFile(
                "Split-train/data_tfrecord-00000-of-00001.gz",
                sha256="79b4b312b978da32514fb459dc5d7df7b50fcaa4a8696a6d1a72bb3f45f193c3",
            ),
            SourceFile(
                "Split-eval/data_tfrecord-00000-of-00001.gz",
                sha256="4b64f7f0ff513919bcc91d341a82c7aca1a6d77002c9f7e478330510ded8511f",
            ),
        ),
        routes=(
            PipWheel(
                "tfx==1.21.0",
                sha256="51032ac740ac6d28185c2814ada5a7e917f3016bcd2043f03ba98e7e674e4165",
                member="tfx/components/testdata/penguin/data",
            ),
        ),
    ),
)
