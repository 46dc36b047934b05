"""Evaluation of an untrained model of a declared table."""

import json
from pathlib import Path

import numpy as np
import pytest
from kfp.dsl import ClassificationMetrics, Metrics

from components.evaluate.case import Case
from components.evaluate.step import publish
from components.model_version.champion import Champion
from tests.support.data.encoded_tables import adapted
from tests.support.data.examples import make_example, write_split
from tests.support.data.offline import evaluated_offline
from trainer.metrics.decision import DecisionRule
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import (
    Category,
    Classes,
    Multilabel,
    Number,
    Table,
    Text,
    Timestamp,
)

import_tensorflow()
import keras  # noqa: E402

from trainer.serving.export import export_model  # noqa: E402
from trainer.training.model.compiled_metrics import CompiledMetrics  # noqa: E402
from trainer.training.model.flat_model import FlatModel  # noqa: E402
from trainer.training.model.objective import Objective  # noqa: E402

NUM_ROWS = 40
MODEL = "projects/p/locations/l/models/5"
FEATURES = [
    Number("age"),
    Number("sizes", length=2),
    Category("tags", separator="|", min_count=1, max_length=2),
    Text("note", min_count=1, max_length=3),
    Timestamp("at", parts=("hour",)),
]


def rows_of(label):
    """Return rows of all kinds of features, some missing; the last has no label."""
    random = np.random.default_rng(2)
    rows = []
    for number in range(NUM_ROWS):
        row = {"age": float(number), "sizes": [1.0, 2.0 * number], "tags": ["a", "b"][: number % 3]}
        row |= {"note": f"word {number % 4}", "at": 3600 * number} if number % 5 else {}
        value = random.choice(["a", "b"]) if isinstance(label, Classes) else 2.0 * number
        row["y"] = ["a", "c"][: number % 3] if isinstance(label, Multilabel) else value
        rows.append(row)
    rows[-1].pop("y")
    return rows


class Evaluated:
    """The step's outputs for an untrained model of a table."""

    def __init__(
        self,
        folder: Path,
        label,
        *,
        thresholds: str = "{}",
        gate: str = '{"baseline": "none"}',
        champion: str = "",
        rows=None,
        train=None,
        features=FEATURES,
        net_share=None,
        **declared,
    ):
        rows = rows or rows_of(label)
        table, records = adapted(Table(features, label=label, name="t", **declared), rows)
        keras.utils.set_random_seed(1)
        self.model_dir, examples = folder / "model", folder / "examples"
        self.workload, self.model = table, table.build_model()
        compiled = None
        if self.model.compiled:
            flat = FlatModel(self.model)
            compiled = CompiledMetrics(table, flat, Objective(table, flat, batch_size=7))
        line, decision = None, DecisionRule()
        if net_share is not None:
            columns, labels = table.parse(records)
            line = table.fit_line(columns, labels.numpy())
            decision = DecisionRule(net_share=net_share, line_loss=4.0, loss_before=3.0)
        options = {"decision": decision, "line": line, "compiled": compiled}
        export_model(self.model, table, str(self.model_dir), **options)
        write_examples(examples, rows, train=train)
        self.metrics = Metrics(name="metrics", uri=str(folder / "metrics"))
        self.confusion = ClassificationMetrics(name="confusion", uri=str(folder / "confusion"))
        self.case = Case(
            model_dir=str(self.model_dir),
            examples_dir=str(examples),
            thresholds=thresholds,
            gate=gate,
            champion=Champion(version=f"{MODEL}@3" if champion else "", model_uri=champion),
        )
        evaluated = evaluated_offline(self.case)
        self.judgement = evaluated.judgement
        publish(
            evaluated,
            metrics=self.metrics,
            confusion=self.confusion,
            latency=Metrics(name="latency", uri=str(folder / "latency")),
            golden_path=str(folder / "golden"),
            report_path=str(folder / "report.html"),
            evaluation_path=str(folder / "evaluation.json"),
        )
        evaluation = (folder / "evaluation.json").read_text()
        self.evaluation = json.loads(evaluation, parse_constant=pytest.fail)
        self.golden = json.loads((folder / "golden").read_text(), parse_constant=pytest.fail)
        self.content = json.loads((folder / "metrics").read_text(), parse_constant=pytest.fail)
        self.report = (folder / "report.html").read_text()


def write_examples(folder: Path, test, *, train=None) -> None:
    folder.mkdir()
    splits = {
        name: write_split(folder, name, map(make_example, rows))
        for name, rows in {"train": train or test, "test": test}.items()
    }
    manifest = {"workload": "t", "compression": "GZIP", "splits": splits}
    (folder / "manifest.json").write_text(json.dumps(manifest))
