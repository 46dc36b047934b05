"""Metrics of the test split, beside those of other models."""

from trainer import Json


def metrics_view(evaluation: Json, metrics: Json) -> Json:
    """Return the metrics, the folds', the champion's and the baseline's, and their limits.

    `metrics` is shown if the evaluation has none.
    """
    shown = evaluation.get("metrics") or metrics
    folds, champion, baseline = (
        evaluation.get(name) or {} for name in ("folds", "champion", "baseline")
    )
    titled = {
        fold_words(folds): folds,
        f"champion @{str(champion.get('version', '')).rpartition('@')[2]}": champion,
        f"baseline {baseline.get('name', '')}".strip(): baseline,
    }
    return {
        "shown": shown,
        "compared": {title: model.get("metrics", {}) for title, model in titled.items() if model},
        "limits": {
            check["name"]: check["limit"]
            for check in evaluation.get("checks", [])
            if check["name"] in shown and check["limit"] is not None
        },
    }


def fold_words(folds: Json) -> str:
    """Return `by 5 folds (150 rows)`, "" without folds."""
    return f"by {folds['count']} folds ({folds['rows']:,} rows)" if folds else ""
