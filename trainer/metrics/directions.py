"""Directions of the metrics, apart from their computation, which imports NumPy."""

LOWER_IS_BETTER = frozenset({"loss", "mae", "rmse", "brier", "calibration_error", "cost"})
HIGHER_IS_BETTER = frozenset({"accuracy", "auc", "pr_auc", "precision", "recall", "f1", "r2"})
# By which models are compared.
COMPARED = tuple(sorted((LOWER_IS_BETTER | HIGHER_IS_BETTER) - {"calibration_error"}))
# Least and greatest value of each metric, of our own and of Keras, that has both.
RANGES = {
    **dict.fromkeys(("accuracy", "auc", "pr_auc", "f1", "precision", "recall"), (0.0, 1.0)),
    "calibration_error": (0.0, 1.0),
    "brier": (0.0, 2.0),
    "r2": (-1e9, 1.0),
    **dict.fromkeys(("mae", "rmse"), (0.0, 1e9)),
}


def name_and_direction(setting: str) -> tuple[str, bool | None]:
    """Return the name of a metric of NAME, NAME:min or NAME:max, and whether lower is better.

    That is None if it is neither said nor known.
    """
    name, _, direction = setting.partition(":")
    if direction:
        return name, direction == "min"
    return name, name in LOWER_IS_BETTER if name in LOWER_IS_BETTER | HIGHER_IS_BETTER else None
