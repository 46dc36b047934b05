"""What is recorded of how a model version was made: its run, its data, its files' digests."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from os.path import normpath
from pathlib import Path
from typing import Any

from components.errors import StepError
from components.model_version.companions import (
    INPUT_FILE,
    STATISTICS_FILE,
    read_companion_object,
    read_digests,
)
from components.model_version.saved_model import DESCRIPTION
from components.prepare_examples.output.publish import MANIFEST
from components.run_result.settings import code_digest, parameters_of
from components.run_result.summary import Summary, summarize
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL, label_of
from components.shared.vertex.task_details import outputs_by_task
from pipelines.resources.kinds import RUN
from pipelines.resources.names import version_text
from trainer import Json, paths
from trainer.errors import InputError
from trainer.references import SNAPSHOT
from trainer.runtime.machine import MACHINE_FILE
from trainer.serving.digests import DIGESTS_FILE

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record of one training: its PipelineJob, and what it left beside examples and model.

    Attributes:
        model_uri: folder of the exported model.
        data: content of `input.json`: fingerprint and, if they are not too many, the raw files.
        manifest: of the examples; {} if they are no longer there.
        statistics: of the train split, by name of the column.
        digests: SHA-256 of each file of the model.
        evaluation: metrics, and their intervals.
        machine: facts of the machine that trained; {} of a training that did not record them.
    """

    job: Json
    model_uri: str
    data: Json
    manifest: Json
    statistics: Json
    digests: dict[str, str]
    evaluation: Json
    machine: Json

    @cached_property
    def summary(self) -> Summary:
        """The facts of the run."""
        return summarize(self.job)

    @cached_property
    def described(self) -> Json:
        """The description of the workload, which is exported with the model."""
        return _object(self.model_uri, DESCRIPTION)

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the declared key, aliases of columns, and the columns of files without a header.

        The key is "" if the workload declares none.
        """
        declared = self.described.get("declaration", {})
        aliases = tuple(self.described.get("aliases", {}).items())
        return declared.get("key", ""), aliases, tuple(declared.get("header", ()))

    @property
    def source(self) -> str:
        """Return `src-DIGEST` of the source that made it; an image with another tag, "" of none."""
        digest = code_digest(self.job)
        return f"src-{digest}" if digest.isalnum() else digest

    @property
    def files(self) -> dict[str, list[object]]:
        """Return size and digest of each raw file by its path, as far as they are listed."""
        listed = self.data.get("files") or ()
        return {name if "://" in name else normpath(name): facts for name, *facts in listed}


def record_of_version(api: VertexApi, version: Json) -> Record:
    """Return the record of a version: without a PipelineJob if that is no longer there."""
    run = label_of(version, RUN_LABEL)
    job = api.find(RUN.path(api, run)) if run else None
    return record_of(job or {}, str(version.get("artifactUri", "")))


def whole_record(api: VertexApi, version: Json) -> Record:
    """Return the record of a version, if it is enough to make the version again.

    Raises:
        StepError: it is not; says what is no longer there.
    """
    name = version_text(version)
    record, run = record_of_version(api, version), label_of(version, RUN_LABEL)
    if not run:
        raise StepError(f"{name} was uploaded by hand: no run made it")
    lost = list(_lacking(record))
    if not record.job:
        lost = [f"the record of its run {run}, which `trainyard prune --keep {name}` keeps"]
    if not record.digests:
        lost.append(f"its files in {record.model_uri}")
    if lost:
        raise StepError(f"{name} cannot be made again without {', '.join(lost)}")
    return record


def record_of(job: Json, model_uri: str = "") -> Record:
    """Return the record of a run; without `model_uri`, of the model of its own training."""
    outputs = outputs_by_task(job)
    model = model_uri or str(outputs.get("plan-training.model.uri", ""))
    examples = str(outputs.get("prepare-examples.examples.uri", ""))
    folder, _, name = str(outputs.get("evaluate.evaluation.uri", "")).rpartition("/")
    statistics = _object(examples, STATISTICS_FILE) or _object(model, STATISTICS_FILE)
    return Record(
        job=job,
        model_uri=model,
        data=_object(examples, INPUT_FILE) or _object(model, INPUT_FILE),
        manifest=_object(examples, MANIFEST),
        statistics=statistics.get("splits", {}).get("train", {}).get("features", {}),
        digests=_object(model, DIGESTS_FILE, read_digests),
        evaluation=_object(folder, name),
        machine=_object(model, MACHINE_FILE),
    )


def _lacking(record: Record) -> Iterator[str]:
    """Yield the local files that a repetition needs and that are no longer there."""
    for name in record.files:
        if name.startswith("/") and not paths.is_in_bucket(name) and not Path(name).exists():
            yield f"the raw file {name}"
    workload = Path(str(parameters_of(record.job).get("workload", "")))
    if SNAPSHOT.fullmatch(workload.name) and not workload.is_dir():
        yield f"the workload's code {workload}"


def _object(folder: str, name: str, read: Callable[..., Any] = read_companion_object) -> Json:
    """Return the object in a file, on this machine or in a bucket; {} without a readable one."""
    try:
        return read(folder, name) or {}
    except InputError as error:
        logger.warning("%s", error)
        return {}
