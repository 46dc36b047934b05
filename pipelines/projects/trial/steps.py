"""The steps of a check that run the user's code, in a process of their own."""

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from components.evaluate.folds import folds_note, num_folds
from components.evaluate.gate.options import GateOptions
from components.evaluate.gate.rivals import find_rules
from components.evaluate.gate.undefined import NEEDED_CLASSES
from components.evaluate.thresholds import check_metrics, read_limits
from components.prepare_examples.declarations import IMAGE_FOLDER, TABLE, kind_of
from components.prepare_examples.images.folder_step import find_root
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import data_folder, find_files
from components.prepare_examples.raw_data.run_files import resolve, run_moment
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.trial.findings import (
    NOT_TRIED,
    OK,
    WRONG,
    Finding,
    NotTriedError,
    ProblemsError,
)
from pipelines.projects.trial.places import Places, explain
from pipelines.projects.trial.records import sample_images, sample_records
from pipelines.projects.trial.sample import Sample, write_dataset
from pipelines.projects.trial.tables import sample_table
from trainer import Json
from trainer.cluster.tf_config import parse_tf_config
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.config.trust import OWN
from trainer.errors import ConfigError, InstanceError
from trainer.runtime import tensorflow_logs
from trainer.workloads import Records, Workload, WorkloadError

NUM_STEPS = 2
BATCH_SIZE = 32
NUM_PREDICTED = 8
FEW_EXAMPLES = 100  # one example is a hundredth of the accuracy
# Settings that only make sense for a whole training.
_NOT_TRIED = ("epochs", "steps", "schedule_steps", "profile_steps", "cpu_devices", "patience")


class Trial:
    """One workload, tried step by step in an empty folder.

    `data_dir` has the data that the workload's source downloads; default: as preparing has it.
    """

    def __init__(
        self,
        reference: str,
        *,
        train: Json,
        options: PrepareOptions,
        folder: Path,
        thresholds: Json | None = None,
        gate: GateOptions | None = None,
        data_dir: str = "",
    ):
        self._data_dir, self._thresholds = data_dir, thresholds or {}
        self._gate = gate or GateOptions()
        self._reference, self._train, self._options = reference, train, options
        self._folder = folder
        self._examples, self._output = folder / "examples", folder / "out"
        self._examples.mkdir()
        self.places = Places(None)
        self._sample: Sample | None = None
        self._workload: Workload | None = None
        self._job: Any = None
        self._metrics: list[str] = []
        self._devices: list[str] = []

    def findings(self) -> Iterator[Finding]:
        """Yield the finding of each step; steps that need a failed one are not tried."""
        needs: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
            "declaration": (self._declare, ()),
            "data": (self._read, ("declaration",)),
            "model": (self._build, ("declaration", "data")),
            **({"slices": (self._cut, ("declaration",))} if self._gate.slices else {}),
            **({"thresholds": (self._judge, ("model",))} if self._thresholds else {}),
            "training": (self._fit, ("model",)),
            "predictions": (self._predict, ("training",)),
        }
        failed: list[str] = []
        for name, (step, needed) in needs.items():
            lacking = [need for need in needed if need in failed]
            finding = (
                Finding(name=name, state=NOT_TRIED, detail=f"needs {lacking[0]}")
                if lacking
                else self._try(name, step)
            )
            if finding.state != OK and (name != "data" or self._sample is None):
                failed.append(name)  # wrong rows may leave enough for the model
            yield finding

    def _try(self, name: str, step: Callable[[], str]) -> Finding:
        started = time.monotonic()
        detail, problems = "", tuple[str, ...]()
        try:
            detail = step()
        except NotTriedError as error:
            return Finding(name=name, state=NOT_TRIED, detail=str(error))
        except ProblemsError as error:
            problems = error.problems
        except (Exception, SystemExit) as error:
            problems = (explain(error, self._place(name, error)),)
        seconds = round(time.monotonic() - started, 1)
        state = WRONG if problems else OK
        return Finding(name=name, state=state, detail=detail, problems=problems, seconds=seconds)

    def _place(self, name: str, error: BaseException) -> str:
        if isinstance(error, WorkloadError | SystemExit) or name == "declaration":
            return ""
        if position := self.places.of_error(error):
            return position
        if name == "data" or self._workload is None:
            return ""
        is_about_loss = any(word in str(error) for word in ("loss", "metric", "optimizer"))
        compiled = self.places.of_call("compile") if is_about_loss else ""
        return compiled or self.places.of_model(self._workload, self._train.get("model", ""))

    def _declare(self) -> str:
        settings = {"workload": self._reference, "examples_dir": "-", **self._train}
        config = TrainConfig.from_settings(settings)
        config.recipe()
        self._workload = workload = config.chosen_workload()
        path = Path(self._reference)
        self.places = Places(path if path.suffix == ".py" else path / "workload.py")
        features = getattr(workload, "features", ())
        number = f"{len(features)} features, " if features else ""
        label = workload.label
        return f"{type(workload).__name__}: {number}{type(label).__name__}({label.column!r})"

    def _read(self) -> str:
        workload = self._workload
        assert workload is not None
        sample = self._sample_of(workload)
        if sample.num_examples:
            write_dataset(sample, self._examples, workload=workload.name)
            self._sample = sample
        if problems := [*sample.problems, *self._undefined(sample, workload)]:
            raise ProblemsError(*problems)
        absent = [
            f"the {split} split has no {', '.join(map(repr, names))}"
            for split, names in sample.absent.items()
        ]
        return "; ".join([sample.detail, *absent, *self._judges(sample.splits)])

    def _judges(self, splits: Json) -> Iterator[str]:
        """Yield that folds judge, or that a small test split tells only large differences."""
        if splits and (note := folds_note({"splits": splits}, self._gate)):
            yield note
        elif splits and (num_test := splits["test"]["num_examples"]) < FEW_EXAMPLES:
            yield f"{num_test} test examples cannot tell small differences between models"

    def _undefined(self, sample: Sample, workload: Workload) -> Iterator[str]:
        """Yield a problem if the verdict needs a class that the test split lacks."""
        from trainer.metrics.resampling import comparable

        absent = sample.absent.get("test", ())
        splits = sample.splits
        if not absent or (splits and num_folds({"splits": splits}, self._gate)):
            return
        label = workload.label
        classes = sample.labels or sample.statistics[label.column]["top_values"]
        metric = self._gate.metric or comparable(label, len(classes))[0]
        needed = [name for name in {metric: 0, **self._thresholds} if name in NEEDED_CLASSES]
        if needed:
            yield (
                f"the test split has no example of the class {absent[0]!r} of {label.column!r}, so"
                f" {' and '.join(needed)} cannot be measured and no model passes; use more"
                " examples, other ratios of the splits, or another gate.metric"
            )

    def _sample_of(self, workload: Workload) -> Sample:
        kind, options = kind_of(workload), resolve(self._options, run_moment(self._options))
        data_dir = local_path(data_folder(self._reference, self._data_dir))
        if kind == IMAGE_FOLDER:
            root = find_root(workload, data_dir, options)
            return sample_images(workload, root, options, self._examples)
        if kind == TABLE:
            return sample_table(workload, data_dir, options, self._examples, self.places)
        if isinstance(workload, Records):
            if options.files:
                paths = [str(local_path(path)) for path in options.files]
            else:
                fetched = fetch(self._reference, data_dir, trust_files=options.trust_files)
                paths = list(map(str, fetched.values()))
            files = find_files(paths)
            self._open_devices()
            return sample_records(workload, files, options, self._examples, self.places)
        raise NotTriedError("only tables, class folders of images and records can be checked")

    def _build(self) -> str:
        assert self._sample is not None
        self._open_devices()
        from trainer.metrics.evaluate import evaluated_names
        from trainer.training.job import make_job
        from trainer.training.model.flat_model import FlatModel, build_served_model
        from trainer.training.model.objective import Objective

        config = self._config(self._sample.num_examples)
        folders = resolve_folders(config.output_dir, {})
        self._job = make_job(config, parse_tf_config(None), folders, threading.Event())
        workload = self._job.workload
        model = FlatModel(build_served_model(workload, config))
        objective = Objective(workload, model, batch_size=config.batch_size)
        objective.check_parts()
        names = [*objective.metric_names(), *evaluated_names(workload)]
        self._metrics = list(dict.fromkeys(names))
        name = config.model or workload.default_model
        if problems := list(self._misfits(model.keras)):
            raise ProblemsError(*problems)
        weights = f"{model.keras.count_params():,} weights"
        return f"{name}, {weights}, returns {objective.output_kind}"

    def _misfits(self, model: Any) -> Iterator[str]:
        """Yield the layers of the user's model that get other inputs than they are for."""
        from pipelines.projects.trial.first_layers import NUM_ROWS, layer_problems
        from trainer.examples.tables import gather_rows

        job = self._job
        if job.workload.model is None:
            return
        table = job.decoder.read_split(job.train)
        features, _ = gather_rows(table, range(min(NUM_ROWS, job.train.num_examples)))
        position = self.places.of_model(job.workload, self._train.get("model", ""))
        for problem in layer_problems(model, job.workload.preprocess(features)):
            yield f"{position}{problem}"

    def _judge(self) -> str:
        problems = []
        for limit in read_limits(self._thresholds):
            try:
                check_metrics([limit], self._metrics, owner="the model")
            except ConfigError as error:
                problems.append(str(error))
        if problems:
            raise ProblemsError(*problems)
        return f"of {', '.join(self._thresholds)}"

    def _cut(self) -> str:
        assert self._workload is not None
        self._open_devices()
        problems = []
        for rule in self._gate.slices:
            try:
                find_rules(self._workload, dataclasses.replace(self._gate, slices=(rule,)))
            except ConfigError as error:
                problems.append(str(error))
        if problems:
            raise ProblemsError(*problems)
        return ", ".join(self._gate.slices)

    def _open_devices(self) -> None:
        if self._devices:
            return
        tensorflow_logs.import_tensorflow()
        from trainer.training.model.devices import open_devices

        self._devices = open_devices("single", cpu_devices=1)

    def _config(self, num_examples: int) -> TrainConfig:
        kept = {name: setting for name, setting in self._train.items() if name not in _NOT_TRIED}
        parts = int(kept.get("micro_batches", 1))
        most = min(int(kept.get("batch_size", BATCH_SIZE)), BATCH_SIZE, num_examples)
        changed = {
            "workload": self._reference,
            "examples_dir": str(self._examples),
            "output_dir": str(self._output),
            "batch_size": max(most // parts, 1) * parts,
            "steps": NUM_STEPS,
            "strategy": "single",
        }
        return TrainConfig.from_settings({**kept, **changed})

    def _fit(self) -> str:
        from trainer import loop

        with contextlib.chdir(self._folder):  # for files that callbacks write
            loop.train_synchronously(self._job, self._devices)
        return f"{NUM_STEPS} steps on {self._job.config.batch_size} examples each, exported"

    def _predict(self) -> str:
        import numpy as np

        from trainer.examples.tables import Decoder, first_rows
        from trainer.serving.export import load_predictor

        predictor = load_predictor(self._job.folders.model, trust=OWN)
        workload = predictor.workload
        decoder = Decoder(workload=workload, compression="", is_raw=True)
        features, _ = first_rows(self._job.train, decoder, NUM_PREDICTED)
        names = [name for name in workload.input_specs() if name in features]
        rows = {name: features[name].numpy() for name in names}
        instances = [
            workload.format_instance({name: column[at] for name, column in rows.items()})
            for at in range(len(next(iter(rows.values()))))
        ]
        try:
            predicted = predictor.predict(json.loads(json.dumps(instances)))
        except InstanceError as error:
            raise ConfigError(f"a request of a stored example is refused: {error}") from error
        for name, column in predictor.predict_batch(rows).items():
            sent = [prediction.get(name) for prediction in predicted]
            is_changed = workload.postprocess is not None
            if (
                column.dtype.kind == "f"
                and not is_changed
                and not np.allclose(column, np.asarray(sent, np.float64), atol=1e-4)
            ):
                raise ConfigError(
                    f"{name} differs between a request and the stored example: {sent[0]} and"
                    f" {column[0].tolist()}"
                )
        shown = json.dumps({key: _short(value) for key, value in predicted[0].items()})
        return f"{len(predicted)} requests answered as the examples, such as {shown}"


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return [_short(item) for item in value[:4]] if isinstance(value, list) else value
