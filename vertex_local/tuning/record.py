"""Record of a tuning job: a HyperparameterTuningJob, validated, and the ends of its trials."""

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vertex_local import Json
from vertex_local.errors import ApiError, invalid_argument
from vertex_local.jobs.record import plan_job
from vertex_local.machine.clock import moment_of

# A job without maxFailedTrialCount fails after so many failed trials, if none has succeeded.
FAILURES_AT_THE_START = 3
ACTIVE = ("ACTIVE", "STOPPING")
BAYESIAN, GRID = "ALGORITHM_UNSPECIFIED", "GRID_SEARCH"
STUDY_FIELDS = (
    "metrics",
    "parameters",
    "algorithm",
    "measurementSelectionType",
    "medianAutomatedStoppingSpec",
)
SCALES = ("SCALE_TYPE_UNSPECIFIED", "UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE")
NUMBERS = ("doubleValueSpec", "integerValueSpec")
KINDS = (*NUMBERS, "categoricalValueSpec", "discreteValueSpec")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """Parameter of a study: a range from `low` to `high`, or `values` to choose from."""

    id: str
    low: float = 0
    high: float = 0
    is_integer: bool = False
    is_log: bool = False
    is_ordered: bool = False
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """A validated HyperparameterTuningJob."""

    parameters: tuple[Parameter, ...]
    metric: str
    is_maximized: bool
    algorithm: str
    selects_best: bool
    stops_early: bool
    num_trials: int
    num_parallel: int
    max_failed: int

    def sort_key(self, value: float) -> float:
        """Return a number that is larger for a better value of the metric."""
        return value if self.is_maximized else -value


def plan_study(job: Json) -> StudyPlan:
    """Validate a HyperparameterTuningJob (canonical JSON) beyond its proto.

    Raises:
        ApiError: INVALID_ARGUMENT or UNIMPLEMENTED, naming the field.
    """
    study: Json = job["studySpec"]
    _refuse_unimplemented(study)
    algorithm = study.get("algorithm", BAYESIAN)
    parameters = tuple(
        _parameter(spec, f"studySpec.parameters[{index}]", algorithm=algorithm)
        for index, spec in enumerate(study["parameters"])
    )
    metric = study["metrics"][0]
    try:
        plan_job({"jobSpec": job["trialJobSpec"]})
    except ApiError as error:
        raise invalid_argument(error.message.replace("jobSpec.", "trialJobSpec.", 1)) from None
    return StudyPlan(
        parameters=parameters,
        metric=metric["metricId"],
        is_maximized=metric["goal"] == "MAXIMIZE",
        algorithm=algorithm,
        selects_best=study.get("measurementSelectionType") == "BEST_MEASUREMENT",
        stops_early="medianAutomatedStoppingSpec" in study,
        num_trials=job["maxTrialCount"],
        num_parallel=job["parallelTrialCount"],
        max_failed=job.get("maxFailedTrialCount", 0),
    )


def _refuse_unimplemented(study: Json) -> None:
    refused = [name for name in study if name not in STUDY_FIELDS]
    refused += [f"metrics[{index}]" for index in range(1, len(study.get("metrics", [])))]
    # Trials are compared by their steps, not by the time.
    median = study.get("medianAutomatedStoppingSpec", {})
    refused += [f"medianAutomatedStoppingSpec.{name}" for name in median]
    for index, spec in enumerate(study.get("parameters", [])):
        field, scale = f"parameters[{index}]", spec.get("scaleType", SCALES[0])
        refused += [f"{field}.conditionalParameterSpecs"] * ("conditionalParameterSpecs" in spec)
        refused += [f"{field}.scaleType {scale}"] * (scale not in SCALES)
    if refused:
        raise ApiError(
            "UNIMPLEMENTED",
            f"studySpec.{refused[0]} is not implemented by this service; leave it out.",
        )


def _parameter(spec: Json, field: str, *, algorithm: str) -> Parameter:
    name = spec["parameterId"]
    kind = next(kind for kind in KINDS if kind in spec)
    if kind == NUMBERS[0] and algorithm == GRID:
        raise invalid_argument(
            f"{field} ({name}) is a {kind}, which {GRID} cannot enumerate; use a discreteValueSpec."
        )
    if kind in NUMBERS:
        low, high = (float(spec[kind].get(bound, 0)) for bound in ("minValue", "maxValue"))
        is_log = spec.get("scaleType") == "UNIT_LOG_SCALE"
        if not (math.isfinite(low) and math.isfinite(high) and low <= high) or (
            is_log and low <= 0
        ):
            raise invalid_argument(
                f"{field}.{kind} is from {low:g} to {high:g}; minValue must not be above maxValue"
                f"{', and above 0 with UNIT_LOG_SCALE' if is_log else ''}."
            )
        is_integer = kind == NUMBERS[1]
        return Parameter(id=name, low=low, high=high, is_integer=is_integer, is_log=is_log)
    values = tuple(spec[kind].get("values", []))
    if len(set(values)) < len(values):
        raise invalid_argument(f"{field}.{kind}.values must be different.")
    return Parameter(id=name, values=values, is_ordered=kind == KINDS[-1])


def trial_job_spec(job: Json, trial_id: str, parameters: Mapping[str, Any]) -> Json:
    """Return the job of a trial: each container gets the parameters as `--NAME=VALUE`.

    As on Vertex AI, its output folder is `TRIAL_ID` in the tuning job's.
    """
    spec: Json = json.loads(json.dumps(job["trialJobSpec"]))
    arguments = [f"--{name}={_text(value)}" for name, value in parameters.items()]
    for pool in spec["workerPoolSpecs"]:
        if container := pool.get("containerSpec"):
            container["args"] = [*container.get("args", []), *arguments]
    if output := spec.get("baseOutputDirectory"):
        output["outputUriPrefix"] = f"{output['outputUriPrefix'].rstrip('/')}/{trial_id}"
    return spec


def _text(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def read_measurements(text: str, metric: str, *, started: str) -> list[Json]:
    """Return the measurements in a file of cloudml-hypertune: a JSON object a line.

    An incomplete line, which is just being written, and other metrics are left out.
    """
    measurements = []
    for line in text.splitlines():
        try:
            report = json.loads(line)
            value, step = float(report[metric]), int(report["global_step"])
            seconds = float(report["timestamp"]) - moment_of(started).timestamp()
        except (ValueError, KeyError, TypeError):
            continue
        measurements.append(
            {
                "stepCount": str(step),
                "elapsedDuration": f"{max(0.0, seconds):.3f}s",
                "metrics": [{"metricId": metric, "value": value}],
            }
        )
    return measurements


def add_measurements(trial: Json, new: list[Json]) -> None:
    """Add measurements to a trial; an earlier attempt's stay up to the step of the first."""
    if new:
        first = int(new[0]["stepCount"])
        old = [one for one in trial.get("measurements", []) if int(one["stepCount"]) < first]
        trial["measurements"] = [*old, *new]


def end_trial(trial: Json, plan: StudyPlan, *, problem: str, ended: str) -> None:
    """Record a trial's end; `problem` is the reason why its job has failed, or ""."""
    final = None if problem else _final_measurement(trial.get("measurements", []), plan)
    trial["endTime"] = ended
    if final is None:
        trial["state"] = "INFEASIBLE"
        trial["infeasibleReason"] = problem or (
            f"It reported no number as {plan.metric} to the file CLOUD_ML_HP_METRIC_FILE; call "
            "HyperTune().report_hyperparameter_tuning_metric of cloudml-hypertune."
        )
    else:
        trial["state"] = "SUCCEEDED"
        trial["finalMeasurement"] = final


def _final_measurement(measurements: list[Json], plan: StudyPlan) -> Json | None:
    numbers = [one for one in measurements if math.isfinite(value_of(one))]
    if not numbers:
        return None
    if plan.selects_best:
        return max(numbers, key=lambda one: plan.sort_key(value_of(one)))
    return numbers[-1] if numbers[-1] is measurements[-1] else None


def value_of(measurement: Json) -> float:
    """Return the metric's value in a measurement; protos in JSON omit 0."""
    return float(measurement["metrics"][0].get("value", 0))


def is_below_median(trial: Json, trials: list[Json], plan: StudyPlan) -> bool:
    """Return whether a trial is to be stopped early.

    It is if its best value is worse than the median, over the trials that have succeeded, of the
    mean value up to this trial's last step (StudySpec.MedianAutomatedStoppingSpec).
    """
    values = _values(trial, plan, up_to=math.inf)
    if not values:
        return False
    last_step = int(trial["measurements"][-1]["stepCount"])
    means = [
        statistics.fmean(rivals)
        for rival in trials
        if rival["state"] == "SUCCEEDED" and (rivals := _values(rival, plan, up_to=last_step))
    ]
    return bool(means) and max(values) < statistics.median(means)


def _values(trial: Json, plan: StudyPlan, *, up_to: float) -> list[float]:
    """Return the numbers a trial has reported up to a step, larger for better ones."""
    return [
        plan.sort_key(value_of(one))
        for one in trial.get("measurements", [])
        if int(one["stepCount"]) <= up_to and math.isfinite(value_of(one))
    ]


def outcome(trials: list[Json], plan: StudyPlan, *, is_exhausted: bool) -> Json | None:
    """Return the last state of a job with these trials and its message; None if it continues."""
    failed = [trial for trial in trials if trial["state"] == "INFEASIBLE"]
    num_succeeded = sum(trial["state"] == "SUCCEEDED" for trial in trials)
    is_over = is_exhausted or len(trials) >= plan.num_trials
    has_ended = is_over and len(failed) + num_succeeded == len(trials)
    limit = plan.max_failed or (math.inf if num_succeeded else FAILURES_AT_THE_START)
    if len(failed) >= limit or (has_ended and not num_succeeded):
        last = failed[-1]
        message = (
            f"{len(failed)} of {len(trials)} trials have failed; trial {last['id']}: "
            f"{last['infeasibleReason']}"
        )
        return {"state": "failed", "message": message}
    return {"state": "succeeded", "message": ""} if has_ended else None
