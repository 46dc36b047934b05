"""Tuning jobs: the request, the call that sends it, and their trials as facts and a table."""

import datetime
import math
from pathlib import Path
from typing import Any

from components.prepare_examples.output.publish import MANIFEST
from components.shared.pages.formats import number
from components.shared.text.json_object import read_object
from components.shared.vertex.api import VertexApi
from components.shared.vertex.task_details import error_of
from pipelines.config.run_config import PLANNED_FLAGS, RunConfig
from pipelines.config.settings import INSTEAD
from pipelines.errors import ResourceError
from pipelines.jobs.request import job_request
from pipelines.jobs.search_space import Varied, key_of
from pipelines.resources.kinds import TUNING
from pipelines.resources.names import short_name
from pipelines.resources.table import TextTable
from trainer import Json
from trainer.config.settings import flag_name
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError
from trainer.metrics.directions import name_and_direction
from trainer.references import valid_name, workload_name

ALGORITHMS = {
    "bayesian": "ALGORITHM_UNSPECIFIED",
    "random": "RANDOM_SEARCH",
    "grid": "GRID_SEARCH",
}
MAXIMIZE, MINIMIZE = "MAXIMIZE", "MINIMIZE"
FOLD_TRIAL = ["python", "-m", "components.evaluate.fold_trial"]
FOLDS_FLAG = "--folds="


def tuning_request(
    config: RunConfig,
    varied: list[Varied],
    *,
    num_trials: int,
    num_parallel: int,
    algorithm: str,
    stops_early: bool,
    **job: Any,
) -> Json:
    """Return the body of `POST …/hyperparameterTuningJobs`; `job` has `job_request`'s arguments.

    A trial is chosen by its last value of `train.best_metric` on the eval split; with
    `train.patience`, which exports the best checkpoint, by its best value.
    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.hyperparameterTuningJobs
    """
    keys = {parameter.key for parameter in varied}
    keys |= {INSTEAD[key] for key in keys if key in INSTEAD}
    given = config.train.given()
    train = {name: value for name, value in given.items() if f"train.{name}" not in keys}
    trial = job_request(config.replace(train=train), **job)
    job_spec = trial.pop("jobSpec")
    has_patience = "patience" in given or "train.patience" in keys
    study: Json = {
        "metrics": [_metric_spec(config.train_config())],
        "parameters": [parameter.to_spec() for parameter in varied],
        "algorithm": ALGORITHMS[algorithm],
        "measurementSelectionType": "BEST_MEASUREMENT" if has_patience else "LAST_MEASUREMENT",
    }
    if stops_early:
        study["medianAutomatedStoppingSpec"] = {}
    return {
        **trial,
        "maxTrialCount": num_trials,
        "parallelTrialCount": num_parallel,
        "studySpec": study,
        "trialJobSpec": job_spec,
    }


def _metric_spec(train: TrainConfig) -> Json:
    name, is_lower_better = name_and_direction(train.best_metric)
    if is_lower_better is None:
        raise ConfigError(
            f"train.best_metric, by which the best trial is chosen, is {name!r}; say what is "
            f"better: {name}:max or {name}:min"
        )
    return {"metricId": name, "goal": MINIMIZE if is_lower_better else MAXIMIZE}


def count_folds(config: RunConfig, examples_dir: str) -> int:
    """Return the number of folds of train and eval that choose the trial; 0 if eval chooses.

    They are as many as the gate's. The default is known only of examples on this machine. Trials
    of several replicas have none.

    Raises:
        ConfigError: gate.folds asks for folds, but the rows cannot be dealt.
    """
    options, manifest = config.gate, Path(examples_dir, MANIFEST)
    if sum(pool.count for pool in config.cluster.vertex_pools()) > 1:
        return 0
    if manifest.is_file():
        from components.evaluate import folds  # 0.2 s, which a run saves

        return folds.num_folds(read_object(manifest, "splits"), options)
    return options.folds if options.folds and options.folds > 1 else 0


def with_folds(request: Json, num_folds: int) -> Json:
    """Return a request whose trials are chosen by their mean over folds of train and eval.

    They export no model.
    """
    if num_folds:
        request["studySpec"]["measurementSelectionType"] = "LAST_MEASUREMENT"  # of all folds
        container = request["trialJobSpec"]["workerPoolSpecs"][0]["containerSpec"]
        container["command"] = [*FOLD_TRIAL, f"{FOLDS_FLAG}{num_folds}"]
    return request


def create_tuning_job(api: VertexApi, request: Json) -> Json:
    """Create a tuning job, once however often it is sent; return it."""
    name = request["displayName"]
    return api.post(
        f"{api.parent}/{TUNING.collection}", request, find=lambda: TUNING.find(api, name)
    )


def tuning_facts(job: Json) -> Json:
    """Return a tuning job as short JSON, with the best of its trials, None without one."""
    metric = job["studySpec"]["metrics"][0]
    trials = [_trial_facts(trial) for trial in job.get("trials", [])]
    measured = [trial for trial in trials if trial["state"] == "SUCCEEDED"]
    choose = max if metric["goal"] == MAXIMIZE else min
    return {
        "name": job["displayName"],
        "id": short_name(job["name"]),
        "state": TUNING.state_of(job),
        "error": error_of(job),
        "metric": metric["metricId"],
        "goal": metric["goal"],
        "measurement": job["studySpec"].get("measurementSelectionType", ""),
        "folds": _folds_of(job),
        "num_trials": int(job["maxTrialCount"]),
        "best": choose(measured, key=lambda trial: trial["value"], default=None),
        "trials": trials,
    }


def _folds_of(job: Json) -> int:
    command = job["trialJobSpec"]["workerPoolSpecs"][0]["containerSpec"].get("command", [])
    counts = [word.removeprefix(FOLDS_FLAG) for word in command if word.startswith(FOLDS_FLAG)]
    return int(counts[0]) if counts else 0


def measure_name(facts: Json) -> str:
    """Return what a trial is chosen by: `eval loss`, or `loss by 5 folds`."""
    by_folds = f"{facts['metric']} by {facts['folds']} folds"
    return by_folds if facts["folds"] else f"eval {facts['metric']}"


def _trial_facts(trial: Json) -> Json:
    measurements = trial.get("measurements", [])
    curve = [[int(row.get("stepCount", 0)), _value(row)] for row in measurements]
    last = trial.get("finalMeasurement") or next(reversed(measurements), None)
    times = [
        datetime.datetime.fromisoformat(trial[key])
        for key in ("startTime", "endTime")
        if key in trial
    ]
    return {
        "id": int(trial["id"]),
        "state": trial["state"],
        "value": _value(last) if last else None,
        "settings": {key_of(item["parameterId"]): item["value"] for item in trial["parameters"]},
        "seconds": (times[-1] - times[0]).total_seconds() if len(times) > 1 else None,
        "reason": trial.get("infeasibleReason", ""),
        "job": short_name(trial["customJob"]) if "customJob" in trial else "",
        "curve": curve,
    }


def _value(measurement: Json) -> float | None:
    """Return the metric of a measurement; None if it is not a number."""
    value = float(measurement["metrics"][0].get("value", 0))
    return value if math.isfinite(value) else None


def trials_table(facts: Json) -> TextTable:
    """Return a row for each trial: those that succeeded first, the best at the top."""
    sign = -1 if facts["goal"] == MAXIMIZE else 1

    def order(trial: Json) -> tuple[Any, ...]:
        is_measured = trial["state"] == "SUCCEEDED"
        return (not is_measured, sign * trial["value"] if is_measured else trial["id"])

    keys = list(dict.fromkeys(key for trial in facts["trials"] for key in trial["settings"]))
    rows = [
        (
            str(trial["id"]),
            trial["state"],
            "-" if trial["value"] is None else number(trial["value"]),
            *(setting_text(trial["settings"].get(key, "-")) for key in keys),
            "-" if trial["seconds"] is None else f"{trial['seconds']:.1f}",
            trial["reason"].partition("\n")[0],
        )
        for trial in sorted(facts["trials"], key=order)
    ]
    headings = ("TRIAL", "STATE", measure_name(facts), *keys, "SECONDS", "")
    return TextTable(headings, rows)


def setting_text(value: Any) -> str:
    """Return a parameter's value with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def best_line(facts: Json) -> str:
    """Return the best trial, and by what it was chosen, in a line."""
    best, goal = facts["best"], "highest" if facts["goal"] == MAXIMIZE else "lowest"
    if not best:
        return "no trial has succeeded"
    evaluation = "best" if facts["measurement"] == "BEST_MEASUREMENT" else "last"
    what = "of train and eval" if facts["folds"] else f"of each trial's {evaluation} evaluation"
    settings = " ".join(f"{key}={setting_text(value)}" for key, value in best["settings"].items())
    return (
        f"best: trial {best['id']} with {settings}; chosen by the {goal} {measure_name(facts)}, "
        f"{number(best['value'])}, {what}"
    )


def winner_flags(job: Json, *, workload: str) -> list[str]:
    """Return the trainer's flags of the best trial, without those that a run sets itself.

    Raises:
        ResourceError: no trial has succeeded, or they are of another workload.
    """
    facts = tuning_facts(job)
    name = job["displayName"]
    if not facts["best"]:
        raise ResourceError(f"no trial of {name} has succeeded; the job is {facts['state']}")
    trial = next(trial for trial in job["trials"] if trial["id"] == str(facts["best"]["id"]))
    container = job["trialJobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    args: list[str] = container["args"]
    tuned = next(arg.partition("=")[2] for arg in args if arg.startswith("--workload="))
    if valid_name(workload_name(tuned)) != workload:
        raise ResourceError(f"{name} tuned {valid_name(workload_name(tuned))}, not {workload}")
    planned = {flag_name(flag) for flag in PLANNED_FLAGS}
    return [
        *(arg for arg in args if arg.partition("=")[0] not in planned),
        *(f"--{item['parameterId']}={_argument(item['value'])}" for item in trial["parameters"]),
    ]


def _argument(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)
