"""Test AUC of the taxi model against logistic regression and gradient-boosted trees.

All see the same columns of the same train split, and are measured on the same test split. The
baselines are scikit-learn's, with settings chosen here by hand; they are not tuned.
"""

import argparse
import dataclasses
import warnings
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder

from benchmarks.clusters import Shape, examples, report, scratch, train_in
from pipelines.config import taxi
from trainer.evaluate import evaluate
from trainer.workloads import load_workload
from trainer.workloads.taxi import NUMBERS, RANGES, TEXTS

NUM_BINS = 20


def main() -> None:
    """Trains all three and prints the AUC of ours beside each baseline's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="Bins whose width are too small")
    ours = _our_auc(seed=arguments.seed)
    for name, baseline in _baselines(seed=arguments.seed).items():
        report(f"taxi against {name}", ours=ours, theirs=_auc(baseline), unit="test AUC")


def _our_auc(*, seed: int) -> float:
    config = dataclasses.asdict(taxi())["train"]
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in config.items()]
    with scratch() as folder:
        train_in(folder, Shape(), *flags, f"--seed={seed}", workload="taxi")
        measured = evaluate(str(folder / "model"), str(examples("taxi")), split="test")
    return measured.metrics["auc"]


def _baselines(*, seed: int) -> dict[str, Any]:
    numbers = list(range(len(NUMBERS)))
    categories = list(range(len(NUMBERS), len(NUMBERS) + len(RANGES) + len(TEXTS)))
    bins = make_pipeline(
        SimpleImputer(strategy="median"),
        KBinsDiscretizer(NUM_BINS, quantile_method="averaged_inverted_cdf"),
    )
    one_hot = OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    ordinal = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, max_categories=250
    )
    is_category = [False] * len(numbers) + [True] * len(categories)
    return {
        "logistic regression": make_pipeline(
            make_column_transformer((bins, numbers), (one_hot, categories)),
            LogisticRegression(max_iter=2000),
        ),
        "gradient-boosted trees": make_pipeline(
            make_column_transformer(("passthrough", numbers), (ordinal, categories)),
            HistGradientBoostingClassifier(categorical_features=is_category, random_state=seed),
        ),
    }


def _auc(baseline: Any) -> float:
    columns, labels = _split("train")
    baseline.fit(columns, labels)
    columns, labels = _split("test")
    return float(roc_auc_score(labels, baseline.predict_proba(columns)[:, 1]))


def _split(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns (numbers, whole numbers, texts) and labels of a split."""
    import tensorflow as tf

    shards = sorted(str(path) for path in examples("taxi").glob(f"{name}-*.tfrecord.gz"))
    records = tf.data.TFRecordDataset(shards, compression_type="GZIP").batch(1_000_000)
    features, labels = load_workload("taxi").parse(next(iter(records)))
    columns = [np.asarray(features[name]).astype(object) for name in (*NUMBERS, *RANGES, *TEXTS)]
    return np.stack(columns, axis=1), np.asarray(labels)


if __name__ == "__main__":
    main()
