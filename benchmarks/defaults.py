"""Default models on small data against scikit-learn: RMSE on diabetes, accuracy on wine and digits.

The workloads are those of examples/, without a setting of the training. Each fold of a cross
validation is the test split once; a tenth of the others is the eval split. All are trained on the
train split and measured on the test split, and the means over all folds and seeds are reported.

    python -m benchmarks.defaults --workloads wine,diabetes --seeds 3
"""

import argparse
import statistics
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.support.clusters import scratch
from benchmarks.support.report import report
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.row_splits import hash_rows, split_numbers
from components.prepare_examples.tfrecords.shards import DEFAULT_RATIOS, SPLITS
from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import Workload, load_workload
from trainer.workloads.declarations.labels import Regression

EXAMPLES = Path(__file__).parents[1] / "examples"
CACHE = Path(".trainyard/cache")
NUM_FOLDS = 5
EVAL_SHARE = 0.1
NUM_KEYS = 200_000
# The images need no cross validation: a fold has 359 of them.
FOLDS = {"diabetes": NUM_FOLDS, "wine": NUM_FOLDS, "digits": 1}
Split = tuple[np.ndarray, np.ndarray]

WORKLOAD = """\
from dataclasses import replace
from pathlib import Path
from trainer.workloads import load_workload

workload = replace(load_workload({reference!r}), key="row", source=None, name="", reference="")
"""


def main() -> None:
    """Train all models, and print ours against each baseline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=",".join(FOLDS), help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=3, help="number; default: %(default)s")
    parser.add_argument("--folds", type=int, help="of each; default: 5 of a table, 1 of images")
    arguments = parser.parse_args()
    import_tensorflow()
    for name in arguments.workloads.split(","):
        folds = range(arguments.folds or FOLDS[name])
        compare(name, seeds=range(arguments.seeds), folds=folds)


def compare(name: str, *, seeds: Sequence[int], folds: Sequence[int]) -> None:
    """Print our result for a workload, and those of the baselines."""
    reference = str(EXAMPLES / name)
    is_number = isinstance(load_workload(reference).label, Regression)
    found: dict[str, list[float]] = {}
    for seed in seeds:
        for fold in folds:
            with scratch() as folder:
                write = write_images if name == "digits" else write_rows
                examples = write(reference, folder, seed=seed, fold=fold)
                ours, splits = train(*examples, folder / "out", seed=seed)
            found.setdefault("ours", []).append(ours)
            for title, model in baselines(is_number=is_number, seed=seed).items():
                found.setdefault(title, []).append(fit(model, splits, is_number=is_number))
            sys.stderr.write(f"{name}, seed {seed}, fold {fold}: {ours:.4g}\n")
    ours = statistics.mean(found.pop("ours"))
    for title, values in found.items():
        report(
            f"{name} against {title}",
            ours=ours,
            theirs=statistics.mean(values),
            unit=f"test {'RMSE' if is_number else 'accuracy'}, mean of {len(values)}",
            lower_is_better=is_number,
        )


def write_rows(reference: str, folder: Path, *, seed: int, fold: int) -> tuple[str, Path]:
    """Prepare a table whose rows have keys of the splits wanted; return workload and examples."""
    [path] = (Path(reference) / "data").iterdir()
    header, *rows = path.read_text().splitlines()
    keys = np.arange(NUM_KEYS).astype(str)  # of a key the text is hashed
    of_keys = split_numbers(hash_rows([pa.array(keys)]), DEFAULT_RATIOS)
    left = [iter(keys[of_keys == number]) for number in range(len(SPLITS))]
    chosen = choose_splits(len(rows), seed=seed, fold=fold)
    lines = [f"{row},{next(left[split])}" for row, split in zip(rows, chosen, strict=True)]
    (folder / "rows.csv").write_text("\n".join([f"{header},row", *lines, ""]))
    own = folder / Path(reference).name
    own.mkdir()
    (own / "workload.py").write_text(WORKLOAD.format(reference=reference))
    options = PrepareOptions(files=(str(folder / "rows.csv"),), block_on="none")
    prepare(str(own), output_dir=folder / "examples", data_dir=folder, options=options)
    return str(own), folder / "examples"


def write_images(reference: str, folder: Path, *, seed: int, fold: int) -> tuple[str, Path]:
    """Prepare images in folders of splits; return workload and examples."""
    from components.prepare_examples.raw_data.archives import unpack

    root = unpack(Path(reference) / "data/digits.zip", CACHE / "digits")
    paths = sorted(root.rglob("*.png"))
    for path, split in zip(paths, choose_splits(len(paths), seed=seed, fold=fold), strict=True):
        target = folder / "images" / SPLITS[split] / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    options = PrepareOptions(files=(str(folder / "images"),), block_on="none")
    prepare(reference, output_dir=folder / "examples", data_dir=folder, options=options)
    return reference, folder / "examples"


def choose_splits(count: int, *, seed: int, fold: int) -> list[int]:
    """Return the number of the split of each row: a fold is for the test."""
    random = np.random.default_rng(seed)
    places = random.permutation(count) % NUM_FOLDS
    is_eval = random.random(count) < EVAL_SHARE
    train, evaluation, test = range(len(SPLITS))
    return np.where(places == fold, test, np.where(is_eval, evaluation, train)).tolist()


def train(
    reference: str, examples: Path, output: Path, *, seed: int
) -> tuple[float, dict[str, Split]]:
    """Train the default model; return its result on the test split, and the splits as arrays."""
    from trainer.loop import train_synchronously
    from trainer.serving.export import load_predictor
    from trainer.training.job import make_job

    config = TrainConfig.from_settings(
        {"workload": reference, "examples_dir": str(examples), "seed": seed}
    )
    job = make_job(config, Cluster(), resolve_folders(str(output), {}), threading.Event())
    train_synchronously(job, ["/device:CPU:0"])
    predictor = load_predictor(str(output / "model"))
    splits = {name: read_split(predictor.workload, examples, name) for name in SPLITS}
    features, labels = read_features(predictor.workload, examples, "test")
    predicted = predictor.predict_batch(features)
    is_number = isinstance(job.workload.label, Regression)
    values = predicted["value"] if is_number else np.argmax(predicted["probabilities"], axis=1)
    return score(np.ravel(values), labels, is_number=is_number), splits


def read_features(workload: Workload, examples: Path, split: str) -> tuple[Any, np.ndarray]:
    """Return the features by name and the labels of a split."""
    import tensorflow as tf

    shards = sorted(str(path) for path in examples.glob(f"{split}-*.tfrecord.gz"))
    records = tf.data.TFRecordDataset(shards, compression_type="GZIP").batch(100_000)
    features, labels = workload.parse(next(iter(records)))
    return features, np.asarray(labels)


def read_split(workload: Workload, examples: Path, split: str) -> Split:
    """Return the features of a split as one array of numbers, and its labels."""
    features, labels = read_features(workload, examples, split)
    columns = [np.reshape(column, (len(labels), -1)) for column in features.values()]
    return np.concatenate(columns, axis=1).astype(np.float64), labels


def baselines(*, is_number: bool, seed: int) -> dict[str, Any]:
    """Return scikit-learn's models by name."""
    make: Callable[..., Any] = make_pipeline
    if is_number:
        linear = make(StandardScaler(), RidgeCV(np.logspace(-2, 3, 20)))
        trees: Any = HistGradientBoostingRegressor(random_state=seed)
        return {"ridge regression": linear, "gradient-boosted trees": trees}
    linear = make(StandardScaler(), LogisticRegression(max_iter=2000))
    trees = HistGradientBoostingClassifier(random_state=seed)
    return {"logistic regression": linear, "gradient-boosted trees": trees}


def fit(model: Any, splits: dict[str, Split], *, is_number: bool) -> float:
    """Return the result of a baseline on the test split."""
    model.fit(*splits["train"])
    columns, labels = splits["test"]
    return score(model.predict(columns), labels, is_number=is_number)


def score(predicted: np.ndarray, labels: np.ndarray, *, is_number: bool) -> float:
    """Return the root of the mean squared error, or the accuracy."""
    if is_number:
        return float(np.sqrt(np.mean((predicted - labels) ** 2)))
    return float(np.mean(predicted == labels))


if __name__ == "__main__":
    main()
