"""Cross-validation: the rows of a small dataset, dealt into folds that judge its recipe in turn."""

import hashlib
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from components.evaluate.case import Case
from components.evaluate.fold_training import (
    OFF,
    Array,
    SplitRows,
    deal,
    keys_of,
    shards_of,
    train_all,
)
from components.evaluate.gate.options import GateOptions
from components.evaluate.gate.rivals import best_constant, simple_models
from components.evaluate.held_out import HeldOut, Predict, as_texts, predict_table, with_columns
from components.model_version.saved_model import DESCRIPTION
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.tfrecords.shards import MOST_KEYS, SPLITS
from components.shared.text.json_object import read_object
from trainer import Json
from trainer.errors import ConfigError

if TYPE_CHECKING:  # it imports TensorFlow
    from trainer.serving.export import Predictor

logger = logging.getLogger(__name__)

FEW_ROWS, DEFAULT_FOLDS = 500, 5
SHARE_OF_TIME = 0.8  # of gate.timeout_seconds; the rest is for the evaluation itself
MODEL = "model"  # the name of the trained model, beside the simple models'
PREDICTIONS_FILE = "predictions.npz"


@dataclass(frozen=True, kw_only=True)
class OutOfFold:
    """All rows of a dataset, and predictions of each by models that were not trained on it."""

    num_folds: int
    records: Sequence[bytes]
    predictions: dict[str, Array]


def num_folds(manifest: Json, options: GateOptions) -> int:
    """Return the number of folds that judge: the setting, or 5 of few rows; 0 for none.

    Raises:
        ConfigError: the setting asks for folds, but the rows cannot be dealt.
    """
    count = DEFAULT_FOLDS if options.folds is None else options.folds
    why_not = _why_no_folds(manifest, count)
    if options.folds is None and _num_rows(manifest) >= FEW_ROWS:
        return 0
    if why_not and count > 1 and options.folds is not None:
        raise ConfigError(f"gate.folds is {count}, but {why_not}; {OFF}")
    return 0 if why_not else count


def _why_no_folds(manifest: Json, count: int) -> str:
    """Return why rows cannot be dealt into so many folds; "" if they can."""
    num_rows, keys = _num_rows(manifest), keys_of(shards_of(manifest, SPLITS))
    if count <= 1:
        return f"gate.folds is {count}"
    if declared := manifest.get("split"):
        return f"the split is by {declared['by']}, which random folds would undo"
    if num_rows > MOST_KEYS:
        return f"{num_rows:,} rows are more than {MOST_KEYS:,}; the test split is large enough"
    if len(keys) != num_rows:
        return "only rows of tables and records that a hash has split can be dealt"
    if (num_groups := len(np.unique(keys))) < 2 * count:
        return f"{num_groups} rows, or groups of rows, are fewer than {2 * count}"
    return ""


def folds_note(manifest: Json, options: GateOptions) -> str:
    """Return in words that folds judge; "" if the test split does."""
    if not (count := num_folds(manifest, options)):
        return ""
    num_rows = _num_rows(manifest)
    few = f"; by default of fewer than {FEW_ROWS}; {OFF}" if num_rows < FEW_ROWS else ""
    return f"{count} folds of all {num_rows:,} rows judge the model{few}"


def _num_rows(manifest: Json) -> int:
    return sum(int(split["num_examples"]) for split in manifest["splits"].values())


def deal_folds(keys: Array, count: int, *, eval_share: float) -> list[dict[str, Array]]:
    """Return the rows of each split of each fold, by name; each row is in one test split.

    Rows of the same key stay together. They are dealt into two parts a fold. A fold tests two
    parts. Of the others as many stop the training as the eval split is large, at least one.
    """
    num_parts = 2 * count
    parts = deal(keys, num_parts)
    last = 2 + min(max(round(eval_share * num_parts), 1), num_parts - 3)
    ends = (("test", 0, 2), ("eval", 2, last), ("train", last, num_parts))
    folds: list[dict[str, Array]] = []
    for first in range(0, num_parts, 2):
        at = (parts - first) % num_parts
        folds.append({name: np.flatnonzero((at >= low) & (at < high)) for name, low, high in ends})
    return folds


def cross_validate(case: Case) -> OutOfFold | None:
    """Train on each fold, and predict the rows left out; None if the test split judges.

    The processes are forked, so TensorFlow must not have run in this one.

    Raises:
        ConfigError: see `num_folds`.
        StepError: a training fails, or has not ended in time.
        DataError: a file of the dataset is damaged.
    """
    if not case.flags:
        return None
    manifest = read_object(Path(case.examples_dir, MANIFEST), "splits", "workload")
    options = case.options
    if not (count := num_folds(manifest, options)):
        return None
    logger.info("%s", folds_note(manifest, options))
    rows = SplitRows(case.examples_dir, manifest, SPLITS)
    share = manifest["splits"]["eval"]["num_examples"] / len(rows.keys)
    dealt = deal_folds(rows.keys, count, eval_share=share)
    with tempfile.TemporaryDirectory(prefix="folds-") as root:
        folders = rows.write_all(Path(root), dealt)
        timeout_seconds = SHARE_OF_TIME * options.timeout_seconds
        then = partial(_predict, case=case)
        for folder in train_all(folders, case.flags, timeout_seconds=timeout_seconds, then=then):
            logger.info("%s is trained", folder.name)
        predicted = [dict(np.load(folder / PREDICTIONS_FILE)) for folder in folders]
    order = np.argsort(np.concatenate([fold["test"] for fold in dealt]))
    models = {
        name: np.concatenate([of_fold[name] for of_fold in predicted])[order]
        for name in predicted[0]
    }
    return OutOfFold(num_folds=count, records=rows.records, predictions=models)


def _predict(folder: Path, *, case: Case) -> None:
    """Write the predictions of the trained model, and of simple ones of the same rows."""
    from trainer.config.trust import OWN
    from trainer.examples.manifest import checked_split, read_manifest
    from trainer.examples.tables import read_table
    from trainer.serving.export import load_predictor

    predictor = load_predictor(f"{folder}/model", trust=OWN)
    workload = predictor.workload
    split = checked_split(read_manifest(str(folder), workload=workload.name), "test")
    features, labels = read_table(split, workload, compression="", raw=True)
    models: dict[str, Predict] = {MODEL: predictor.predict_values}
    models |= simple_models(predictor, case.options, str(folder))
    models |= best_constant(workload, case.options, str(folder))
    names = read_object(Path(case.model_dir, DESCRIPTION), "labels")["labels"]  # the deployed one's

    def predicted(predict: Predict) -> Array:
        return predict_table(
            lambda rows: with_columns(predict(rows), workload.labels, names),
            features,
            labels.numpy(),
            workload,
        )

    found: Any = {name: predicted(predict) for name, predict in models.items()}
    np.savez(folder / PREDICTIONS_FILE, **found)


def held_out_by_folds(out: OutOfFold, predictor: "Predictor", test: HeldOut) -> HeldOut:
    """Return all rows with a label as examples.

    They have the simple rivals and columns of `test`, and the classes and the threshold of the
    model that the run deploys.
    """
    import tensorflow as tf

    from trainer.examples.tables import Decoder

    workload = predictor.workload
    decoder = Decoder(workload=workload, compression="", is_raw=True)
    features, labels = decoder.decode(tf.constant(out.records))
    rows = np.flatnonzero(workload.label.find_labelled(labels.numpy()))
    truth = labels.numpy()[rows]
    predictions = {name: predicted[rows] for name, predicted in out.predictions.items()}
    return replace(
        test,
        compiled={},
        labels=truth,
        predictions=predictions[MODEL],
        rivals={name: predictions[name] for name in test.rivals if name in predictions},
        columns={name: as_texts(features[name].numpy()[rows]) for name in test.columns},
        num_folds=out.num_folds,
        hashes=[hashlib.sha256(out.records[row]).hexdigest() for row in rows.tolist()],
    )
