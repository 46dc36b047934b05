"""`python -m pipelines.projects.trial REFERENCE FILE [DATA_DIR]`: write findings as lines of JSON.

The steps of a check that run the user's code. The file has `train`, `prepare`, `thresholds` and
`gate` of a run as JSON; the folder has the workload's downloaded data.
"""

import contextlib
import faulthandler
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from components.endpoint.predict.parity import check_parity
from components.evaluate.gate.options import GateOptions
from components.evaluate.gate.rivals import find_rules
from components.evaluate.thresholds import check_metrics, read_limits
from components.prepare_examples.prepare import read_manifest
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.trial import data
from pipelines.projects.trial.findings import NOT_TRIED, OK, Finding, ProblemsError
from pipelines.projects.trial.places import Places, explain
from trainer import Json
from trainer.cluster.tf_config import parse_tf_config
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.config.trust import OWN
from trainer.errors import ConfigError, InstanceError
from trainer.references import FILE
from trainer.runtime import tensorflow_logs
from trainer.workloads import ImageFolder, Workload, WorkloadError

NUM_STEPS = 2
BATCH_SIZE = 32
NUM_PREDICTED = 8
LARGEST_SCALE = 0.01  # of a layer that is for pixels from 0 to 255
# Settings that only make sense for a whole training.
_NOT_TRIED = ("epochs", "steps", "schedule_steps", "cpu_devices", "patience")


@dataclass(kw_only=True)
class Trial:
    """One workload, tried step by step in an empty folder.

    `data_dir` has the data that the workload's source downloads; default: as preparing has it.
    """

    reference: str
    train: Json
    options: PrepareOptions
    folder: Path
    thresholds: Json = field(default_factory=dict)
    gate: GateOptions = field(default_factory=GateOptions)
    data_dir: str = ""
    _places: Places = field(default=Places(None), init=False)
    _metrics: list[str] = field(default_factory=list, init=False)

    @property
    def _examples(self) -> Path:
        return self.folder / "examples"

    def findings(self) -> Iterator[Finding]:
        """Yield the finding of each step; steps that need a failed one are not tried."""
        steps: list[tuple[str, Callable[[], str], str]] = [
            ("declaration", self._declare, ""),
            ("data", self._read, "declaration"),
            ("model", self._build, "data"),
            *[("slices", self._cut, "declaration")] * bool(self.gate.slices),
            *[("thresholds", self._judge, "model")] * bool(self.thresholds),
            ("training", self._fit, "model"),
            ("predictions", self._predict, "training"),
        ]
        failed = set[str]()
        for name, step, needed in steps:
            if needed in failed:
                finding = Finding(name=name, state=NOT_TRIED, detail=f"needs {needed}")
            else:
                finding = self._try(name, step)
            if finding.state != OK and (name != "data" or not self._examples.exists()):
                failed.add(name)  # wrong examples may be enough for the model
            yield finding

    def _try(self, name: str, step: Callable[[], str]) -> Finding:
        started = time.monotonic()
        try:
            finding = Finding(name=name, detail=step())
        except ProblemsError as error:
            finding = Finding.wrong(name, *error.problems)
        except (Exception, SystemExit) as error:
            finding = Finding.wrong(name, explain(error, self._place(name, error)))
        return replace(finding, seconds=round(time.monotonic() - started, 1))

    def _place(self, name: str, error: BaseException) -> str:
        if isinstance(error, WorkloadError | SystemExit) or name == "declaration":
            return ""
        if (position := self._places.of_error(error)) or name == "data":
            return position
        is_about_loss = any(word in str(error) for word in ("loss", "metric", "optimizer"))
        compiled = self._places.of_name("compile") if is_about_loss else ""
        return compiled or self._place_of_model()

    def _place_of_model(self) -> str:
        return self._places.of_model(self._workload, self.train.get("model", ""))

    @cached_property
    def _workload(self) -> Workload:
        settings = {"workload": self.reference, "examples_dir": "-", **self.train}
        config = TrainConfig(**settings)
        config.recipe()
        return config.chosen_workload()

    @cached_property
    def _devices(self) -> list[str]:
        tensorflow_logs.import_tensorflow()
        from trainer.training.model.devices import open_devices

        return open_devices("single", cpu_devices=1)

    @cached_property
    def _job(self) -> Any:
        """The training of two steps on the prepared examples."""
        assert self._devices
        from trainer.training.job import make_job

        kept = {name: setting for name, setting in self.train.items() if name not in _NOT_TRIED}
        parts = int(kept.get("micro_batches", 1))
        num_train = read_manifest(self._examples)["splits"]["train"]["num_examples"]
        most = min(int(kept.get("batch_size", BATCH_SIZE)), BATCH_SIZE, num_train)
        settings = {
            **kept,
            "workload": self.reference,
            "examples_dir": str(self._examples),
            "output_dir": str(self.folder / "out"),
            "batch_size": max(most // parts, 1) * parts,
            "steps": NUM_STEPS,
            "strategy": "single",
        }
        config = TrainConfig(**settings)
        folders = resolve_folders(config.output_dir, {})
        return make_job(config, parse_tf_config(None), folders, threading.Event())

    def _declare(self) -> str:
        workload = self._workload
        path = Path(self.reference)
        file = path if path.suffix == ".py" else path / FILE
        self._places = Places(file if file.is_file() else None)
        features = getattr(workload, "features", ())
        number = f"{len(features)} features, " if features else ""
        label = workload.label
        return f"{type(workload).__name__}: {number}{label.kind}({label.column!r})"

    def _read(self) -> str:
        prepared = data.prepare_some(
            self.reference,
            self._workload,
            options=self.options,
            folder=self._examples,
            data_dir=self.data_dir,
        )
        errors = [part for error in prepared.errors for part in error.parts or (error,)]
        if errors:
            raise ProblemsError(*(explain(e, self._places.of_name(e.about)) for e in errors))
        workload = self._job.workload
        if problem := data.undefined_metric(prepared, workload, self.gate, self.thresholds):
            raise ProblemsError(problem)
        return data.describe(prepared, workload, self.gate)

    def _build(self) -> str:
        job = self._job
        from trainer.training.model.flat_model import FlatModel, build_served_model
        from trainer.training.model.objective import Objective

        workload, config = job.workload, job.config
        model = FlatModel(build_served_model(workload, config))
        objective = Objective(workload, model, batch_size=config.batch_size)
        objective.check_parts()
        self._metrics = [*dict.fromkeys([*objective.metric_names(), *workload.evaluated_metrics])]
        if problems := [*self._scaled_twice(model.keras)]:
            raise ProblemsError(*problems)
        weights = f"{model.keras.count_params():,} weights"
        name = config.model or workload.default_model
        return f"{name}, {weights}, returns {objective.output_kind}"

    def _scaled_twice(self, model: Any) -> Iterator[str]:
        """Yield the layers that divide pixels by 255, which are from 0 to 1 already."""
        from keras.layers import Rescaling

        workload = self._job.workload
        is_scaled = isinstance(workload, ImageFolder) and not workload.raw_inputs
        for layer in model._flatten_layers() if is_scaled else ():
            if isinstance(layer, Rescaling) and np.max(layer.scale) <= LARGEST_SCALE:
                yield (
                    f"{self._place_of_model()}the layer {layer.name} (Rescaling) gets pixels from 0"
                    " to 1: remove it, or let the workload have raw_inputs=True"
                )

    def _judge(self) -> str:
        limits = [[limit] for limit in read_limits(self.thresholds)]
        _check_each(lambda one: check_metrics(one, self._metrics, owner="the model"), limits)
        return f"of {', '.join(self.thresholds)}"

    def _cut(self) -> str:
        assert self._devices  # TensorFlow is imported
        gates = [self.gate.replace(slices=(rule,)) for rule in self.gate.slices]
        _check_each(lambda gate: find_rules(self._workload, gate), gates)
        return ", ".join(self.gate.slices)

    def _fit(self) -> str:
        from trainer import loop

        with contextlib.chdir(self.folder):  # for files that callbacks write
            loop.train_synchronously(self._job, self._devices)
        return f"{NUM_STEPS} steps on {self._job.config.batch_size} examples each, exported"

    def _predict(self) -> str:
        from trainer.examples.tables import Decoder, first_rows
        from trainer.serving.export import load_predictor

        predictor = load_predictor(self._job.folders.model, trust=OWN)
        workload = predictor.workload
        decoder = Decoder(workload=workload, compression="", is_raw=True)
        features, labels = first_rows(self._job.train, decoder, NUM_PREDICTED)
        rows = {n: features[n].numpy() for n in workload.input_specs() if n in features}
        instances = [
            workload.format_instance(dict(zip(rows, row, strict=True)))
            for row in zip(*rows.values(), strict=True)
        ]
        try:
            predicted = predictor.predict(json.loads(json.dumps(instances)))
        except InstanceError as error:
            raise ConfigError(f"a request of a stored example is refused: {error}") from error
        stored = predictor.predictions_of(predictor.predict_batch(rows))
        check_parity(predicted, stored, labels.numpy().tolist())
        return f"{len(predicted)} requests answered as the examples"


def _check_each(check: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Check each item; ProblemsError has the mistakes of all."""
    problems = []
    for item in items:
        try:
            check(item)
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ProblemsError(*problems)


def main() -> int:
    """Try a workload; return the exit code."""
    reference, file, *data_dir = sys.argv[1:]
    # What the user's code prints goes to stderr, also what it does so below Python.
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.register(signal.SIGUSR1)  # to find the line of the user's code that hangs
    settings = json.loads(Path(file).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="trainyard-check-") as folder, stdout:
        trial = Trial(
            reference=reference,
            train=settings["train"],
            options=PrepareOptions(**settings["prepare"]),
            thresholds=settings["thresholds"],
            gate=GateOptions(**settings["gate"]),
            folder=Path(folder),
            data_dir="".join(data_dir),
        )
        for finding in trial.findings():
            stdout.write(finding.to_json() + "\n")
            stdout.flush()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # no destructors: TensorFlow's may wait for threads
