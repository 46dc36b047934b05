"""Directions of the metrics, apart from their computation, which imports NumPy."""

LOWER_IS_BETTER = frozenset({"loss", "mae", "rmse", "brier", "calibration_error"})
HIGHER_IS_BETTER = frozenset({"accuracy", "auc", "pr_auc", "f1", "r2"})
