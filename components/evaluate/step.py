"""Evaluation step: metrics, verdict and artifacts of a model."""

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from components.errors import StepError
from components.evaluate.case import Case
from components.evaluate.report import render_report
from components.evaluate.thresholds import Check, Judgement, judgement_of
from components.model_version.champion import Standing
from components.model_version.companions import (
    EVALUATED_FILE,
    FOLDS_FILE,
    GOLDEN_FIELDS,
    GOLDEN_FILE,
    INPUT_FILE,
    STATISTICS_FILE,
    read_companion_object,
    write_companion,
)
from components.model_version.decisions import NOT_PROMOTED, REQUIRED
from components.prepare_examples.output.manifest import split_of
from components.prepare_examples.output.publish import MANIFEST
from components.shared.text.json_object import read_object
from components.shared.vertex.labels import CANDIDATE, CHALLENGER, WAITING
from trainer import Json
from trainer.config.trust import OWN
from trainer.errors import InputError
from trainer.runtime.machine import MACHINE_FILE
from trainer.serving.strict_json import finite
from trainer.workloads.loading import package_digest

if TYPE_CHECKING:
    from kfp.dsl import ClassificationMetrics, Metrics

logger = logging.getLogger(__name__)
SOURCE = ("components", "trainer")
# Of the importance in the summary.
NUM_COLUMNS = 20


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """Results of an evaluation, which all artifacts are made of.

    Attributes:
        latency: measurements of the prediction server; none of a model that did not pass.
    """

    content: Json
    golden: Json
    latency: dict[str, float]

    @property
    def judgement(self) -> Judgement:
        """The verdict of all checks."""
        return judgement_of(self.content["checks"])

    @property
    def importance_text(self) -> str:
        """Loss in the gate's metric by column, a JSON object, for the summary of the run."""
        rows = self.content.get("importance", ())
        return json.dumps({row["feature"]: row["loss"] for row in rows[:NUM_COLUMNS]})

    @property
    def folds_text(self) -> str:
        """Folds, rows and metrics, a JSON object, for the summary of the run; {} without folds."""
        return json.dumps(self.content.get("folds") or {})

    def with_note(self, text: str) -> "Evaluated":
        """Return the same with a first reason that is met; "" for none."""
        if not text:
            return self
        note = Check(name="note", is_ok=True, text=text).to_json()
        checks = [note, *self.content["checks"]]
        return replace(self, content={**self.content, "checks": checks})


def evaluate_model(case: Case, *, image: str) -> Evaluated:
    """Evaluate a model, and check its server if it passes; or return what an earlier run has found.

    The results are kept beside the model with what they depend on.

    Raises:
        ConfigError, StepError, InputError: as `assess`.
    """
    # The image of a package that was compiled before a change of this code does not tell.
    source = {name: package_digest(name) for name in SOURCE}
    inputs = {
        "image": image,
        "thresholds": case.thresholds,
        "gate": case.gate,
        "source": source,
        "examples": case.examples_dir,
        "champion": case.champion.version,
    }
    if earlier := _read_earlier(case.model_dir, inputs):
        logger.info("evaluated before, with the same examples, settings and champion")
        return earlier
    # Imported here, since a repeated run ends above.
    from components.evaluate.assess import assess, golden_predictions
    from components.evaluate.content import evaluation_content
    from components.evaluate.folds import cross_validate
    from components.evaluate.gate.folds import to_companion
    from components.evaluate.server.check import check_served_model
    from components.evaluate.server.server import started

    out_of_fold = cross_validate(case)
    with started(case.model_dir, trust=OWN) as await_url:  # forked before TensorFlow has run
        assessed = assess(case, out_of_fold)
        golden = finite(golden_predictions(assessed.held_out, assessed.predictor))
        checks, latency, is_served = list(assessed.checks), {}, True
        if assessed.judgement.is_passed:
            try:
                latency = check_served_model(
                    await_url(), golden, workload=assessed.predictor.workload, options=case.options
                )
            except StepError as error:
                is_served = False
                text = " ".join(str(error).split())
                checks.append(Check(name="server", is_ok=False, text=text))
    content = evaluation_content(assessed, checks)
    write_companion(case.model_dir, GOLDEN_FILE, golden)
    if assessed.judged.num_folds:
        write_companion(case.model_dir, FOLDS_FILE, to_companion(assessed.judged))
    write_data_facts(case.model_dir, case.examples_dir)
    if is_served:  # else the machine may have been to blame
        record = {"inputs": inputs, "content": content, "latency": latency}
        write_companion(case.model_dir, EVALUATED_FILE, record)
    return Evaluated(content=content, golden=golden, latency=latency)


def _read_earlier(model_dir: str, inputs: Json) -> Evaluated | None:
    """Return the results beside a model if they depend on the same inputs."""
    try:
        record = read_companion_object(model_dir, EVALUATED_FILE, "inputs", "content", "latency")
        golden = read_companion_object(model_dir, GOLDEN_FILE, *GOLDEN_FIELDS)
    except InputError as error:
        logger.warning("the model is evaluated again: %s", error)
        return None
    if not record or not golden or record["inputs"] != inputs:
        return None
    return Evaluated(content=record["content"], golden=golden, latency=record["latency"])


def write_data_facts(model_dir: str, examples_dir: str) -> None:
    """Write the statistics of the train split and the record of the input beside a model.

    The record has the rule of the splits. Examples that another program has prepared have neither.
    The facts of the machine are there as well, which its trainer has written above the model.
    """
    if Path(examples_dir, STATISTICS_FILE).is_file():
        content = read_object(Path(examples_dir, STATISTICS_FILE), "splits.train")
        train = {"train": content["splits"]["train"]}
        write_companion(model_dir, STATISTICS_FILE, {**content, "splits": train})
    if Path(examples_dir, INPUT_FILE).is_file():
        record = read_object(Path(examples_dir, INPUT_FILE))
        record["split"] = split_of(read_object(Path(examples_dir, MANIFEST)))
        write_companion(model_dir, INPUT_FILE, record)
    if (machine := Path(model_dir).parent / MACHINE_FILE).is_file():
        write_companion(model_dir, MACHINE_FILE, read_object(machine))


class Course(NamedTuple):
    """Continuation of a run after its evaluation.

    Attributes:
        state: of the version to upload: CANDIDATE, WAITING, CHALLENGER, or "" for none.
        known_version: the version to serve, if one is the same model, else "".
        stop: why a model that passed is not promoted by this run, else "": one of STOPS or
            NOT_PROMOTED, a colon and the reason.
    """

    state: str = ""
    known_version: str = ""
    stop: str = ""


def course_of(judgement: Judgement, standing: Standing, *, gate: Json, release: Json) -> Course:
    """Return how a run continues, by its settings of `gate` and `release`."""
    if not release.get("promote", True):
        return Course(stop=f"{NOT_PROMOTED}: the run ends after its evaluation, as it was asked")
    if not judgement.is_passed:
        is_kept = gate.get("keep_challenger") and not standing.known_version
        return Course(state=CHALLENGER if is_kept and standing.champion.version else "")
    if standing.stop:
        return Course(stop=standing.stop)
    if release.get("approval") == REQUIRED and not standing.is_default:
        why = "; ".join(filter(None, [standing.words, "a person must approve or reject it"]))
        state = "" if standing.known_version else WAITING
        return Course(state=state, stop=f"{WAITING}: {why}")
    if standing.known_version:
        return Course(known_version=standing.known_version)
    return Course(state=CANDIDATE)


def publish(
    evaluated: Evaluated,
    *,
    metrics: "Metrics",
    confusion: "ClassificationMetrics",
    latency: "Metrics",
    golden_path: str,
    report_path: str,
    evaluation_path: str,
) -> None:
    """Write the artifacts of an evaluation.

    A metric that is not a number, such as the auc of a split with one class, is left out. The file
    of the metrics also has the rows of several labels at once, or of the deciles of a number; the
    file of the confusion matrix, true classes in rows, is written without classes too. Of many
    classes there is no matrix, but the sums of each class and the most frequent mistakes.
    """
    content, judgement = evaluated.content, evaluated.judgement
    counts = {name: content[name] for name in ("num_examples", "num_unlabelled") if content[name]}
    values = {
        name: value for name, value in content["metrics"].items() if value is not None
    } | counts
    rows = {"by_label": content["by_label"], "by_decile": content["curves"].get("residuals")}
    _log(metrics, values, **{name: value for name, value in rows.items() if value})
    _log(latency, evaluated.latency)
    if content["confusion"]:
        confusion.log_confusion_matrix(content["labels"], content["confusion"])
    if roc := content["curves"].get("roc"):  # which Vertex AI's page of the run shows
        confusion.log_roc_curve(roc["false_positive"], roc["true_positive"], roc["thresholds"])
    matrix = {name: content.get(name) for name in ("labels", "confusion", "pairs", "by_class")}
    _write(confusion.path, json.dumps(matrix))
    _write(golden_path, json.dumps(evaluated.golden))
    _write(evaluation_path, json.dumps(content))
    _write(report_path, render_report(content, judgement))
    logger.info("%s: %s", judgement.verdict, "; ".join(judgement.reasons))


def _log(artifact: "Metrics", values: Json, **rows: Json) -> None:
    for name, value in values.items():
        artifact.log_metric(name, value)
    _write(artifact.path, json.dumps(values | rows, indent=2))


def _write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
