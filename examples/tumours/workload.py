"""Tumours: tell benign from malignant ones by 30 measures of cell nuclei, 569 samples.

The model and its `compile` are those of before.py. What the script does around them is declared.
"""

from trainyard import Binary, Number, Table, combine

MEASURES = (
    *("radius", "texture", "perimeter", "area", "smoothness"),
    *("compactness", "concavity", "concave_points", "symmetry", "fractal_dimension"),
)
COLUMNS = [f"{kind}_{name}" for kind in ("mean", "error", "worst") for name in MEASURES]


def model(inputs, *, units: int = 32, rate: float = 0.3):
    """Return a compiled net of one hidden layer."""
    import keras

    hidden = keras.layers.Dense(units, activation="relu")(combine(inputs))
    hidden = keras.layers.Dropout(rate)(hidden)
    net = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    net.compile(
        optimizer=keras.optimizers.AdamW(3e-3, weight_decay=0.01),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
    )
    return net


workload = Table(
    [Number(name, low=0, is_required=True) for name in COLUMNS],
    label=Binary("benign", positive=1, names=("malignant", "benign")),
    model=model,
)
