"""Test AUC of the taxi model against logistic regression and gradient-boosted trees.

All are trained on the same columns of the train split and evaluated on the test split, with
several seeds; the mean is reported. Then the same with each year of the data as the test split,
for models of the other years. The baselines are scikit-learn's, the trees with defaults and with
the settings of a grid that are best in cross-validation on the train and eval splits.
"""

import argparse
import dataclasses
import itertools
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder

from benchmarks.support.clusters import Shape, examples, scratch, test_metrics, train_in
from benchmarks.support.records import write_records
from benchmarks.support.report import report
from pipelines.config.built_in import taxi
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import load_workload
from trainer.workloads.encoding.storage import is_float

NUM_BINS = 20
NUM_FOLDS = 3
TIME = "trip_start_timestamp"
TREE_GRID = {
    "learning_rate": (0.03, 0.1),
    "max_iter": (100, 200),
    "max_leaf_nodes": (4, 8, 16),
    "l2_regularization": (0.0, 10.0),
}
Split = tuple[np.ndarray, np.ndarray]


def main() -> None:
    """Train all models, and print our AUC against each baseline's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=3, help="number of seeds; default: %(default)s"
    )
    seeds = range(parser.parse_args().seeds)
    warnings.filterwarnings("ignore", message="Bins whose width are too small")
    import_tensorflow()
    report_aucs("taxi", [compare(examples("taxi"), "test split", seeds)])
    with scratch() as folder:
        years = write_years(folder)
        found = [compare(path, f"{year} by other years", seeds) for year, path in years.items()]
    report_aucs("taxi, each year by the other years,", found)


def compare(folder: Path, title: str, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Return the test AUC of our model and of each baseline for each seed; log them."""
    splits = {name: parse(records) for name, records in read_records(folder).items()}
    found = {"ours": [_our_auc(folder, seed=seed) for seed in seeds]}
    for name, make in _baselines(splits).items():
        found[name] = [auc_of(make(seed), splits["train"], splits["test"]) for seed in seeds]
    for name, aucs in found.items():
        sys.stderr.write(f"{title}, {name}: {', '.join(f'{auc:.4f}' for auc in aucs)}\n")
    return found


def report_aucs(title: str, found: Sequence[dict[str, list[float]]]) -> None:
    """Print our mean AUC of all comparisons against each baseline's."""
    means = {name: statistics.mean(auc for one in found for auc in one[name]) for name in found[0]}
    ours, num_seeds = means.pop("ours"), len(found[0]["ours"])
    for name, theirs in means.items():
        unit = f"test AUC, mean over {num_seeds} seeds"
        report(f"{title} against {name}", ours=ours, theirs=theirs, unit=unit)


def write_years(folder: Path) -> dict[str, Path]:
    """Write examples for each year: all its trips are the test split, none is in the others."""
    import tensorflow as tf

    records, years = read_records(examples("taxi")), {}
    for name, serialized in records.items():
        times = tf.io.parse_example(serialized, {TIME: tf.io.FixedLenFeature([], tf.int64)})[TIME]
        years[name] = times.numpy().astype("datetime64[s]").astype("datetime64[Y]").astype(str)
    found = {}
    for year in sorted(set(np.concatenate(list(years.values())).tolist())):
        found[year] = folder / year / "taxi"
        found[year].mkdir(parents=True)
        splits = {name: records[name][years[name] != year] for name in ("train", "eval")}
        splits["test"] = np.concatenate([records[name][years[name] == year] for name in records])
        write_records(found[year], splits)
    return found


def read_records(folder: Path) -> dict[str, np.ndarray]:
    """Return the serialized examples of each split."""
    import tensorflow as tf

    from trainer.examples.manifest import read_manifest

    manifest = read_manifest(str(folder), workload="taxi")
    found = {}
    for name, split in manifest.splits.items():
        records = tf.data.TFRecordDataset(split.paths, manifest.compression)
        found[name] = np.array(list(records.as_numpy_iterator()), object)
    return found


def parse(records: np.ndarray) -> Split:
    """Return the columns (numbers, integers, strings) and labels of serialized examples."""
    taxi = load_workload("taxi")
    features, labels = taxi.parse(records)
    used = sorted(taxi.used, key=is_float, reverse=True)
    columns = [np.asarray(features[feature.name]).astype(object) for feature in used]
    return np.stack(columns, axis=1), np.asarray(labels)


def auc_of(model: Any, train: Split, measured: Split) -> float:
    """Train on one split; return the area under the ROC curve on the other."""
    model.fit(*train)
    columns, labels = measured
    return float(roc_auc_score(labels, model.predict_proba(columns)[:, 1]))


def _our_auc(examples_dir: Path, *, seed: int) -> float:
    config = dataclasses.asdict(taxi())["train"]
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in config.items()]
    with scratch() as folder:
        flags.append(f"--seed={seed}")
        train_in(folder, Shape(), *flags, workload="taxi", examples_dir=examples_dir)
        return test_metrics(folder, examples_dir)["auc"]


def _baselines(splits: dict[str, Split]) -> dict[str, Callable[[int], Any]]:
    """Return the function that makes each baseline from a seed."""
    best = _tune_trees(splits)
    return {
        "logistic regression": lambda seed: _logistic_regression(),
        "gradient-boosted trees": lambda seed: _trees(seed=seed),
        "gradient-boosted trees, tuned": lambda seed: _trees(seed=seed, **best),
    }


def _tune_trees(splits: dict[str, Split]) -> dict[str, Any]:
    rows = itertools.product(*TREE_GRID.values())
    grid = [dict(zip(TREE_GRID, row, strict=True), early_stopping=False) for row in rows]
    columns, labels = map(np.concatenate, zip(splits["train"], splits["eval"], strict=True))
    scores = [
        float(np.mean(cross_val_score(trees, columns, labels, scoring="roc_auc", cv=NUM_FOLDS)))
        for trees in (_trees(seed=0, **settings) for settings in grid)
    ]
    best = grid[int(np.argmax(scores))]
    sys.stderr.write(f"best of {len(grid)} settings, {max(scores):.4f}: {best}\n")
    return best


def _logistic_regression() -> Any:
    numbers, categories = _column_kinds()
    bins = make_pipeline(
        SimpleImputer(strategy="median"),
        KBinsDiscretizer(NUM_BINS, quantile_method="averaged_inverted_cdf"),
    )
    one_hot = OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    columns = make_column_transformer((bins, numbers), (one_hot, categories))
    return make_pipeline(columns, LogisticRegression(max_iter=2000))


def _trees(*, seed: int, **settings: Any) -> Any:
    numbers, categories = _column_kinds()
    ordinal = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, max_categories=250
    )
    is_category = [False] * len(numbers) + [True] * len(categories)
    trees = HistGradientBoostingClassifier(
        categorical_features=is_category, random_state=seed, **settings
    )
    columns = make_column_transformer(("passthrough", numbers), (ordinal, categories))
    return make_pipeline(columns, trees)


def _column_kinds() -> tuple[list[int], list[int]]:
    """Return the column indices of the numbers and of the categories."""
    used = load_workload("taxi").used
    count = sum(map(is_float, used))
    return list(range(count)), list(range(count, len(used)))


if __name__ == "__main__":
    main()
