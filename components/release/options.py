"""Settings of a release (replay, canary, what stays deployed), and of the machines that serve."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from components.plan_training.machines import (
    GPUS,
    Accelerator,
    Machine,
    accelerator_error,
    machine_problem,
)
from components.shared.text.json_object import present
from components.time_limit import A_DAY_SECONDS, LONG_SECONDS
from trainer import Json
from trainer.config.settings import MOST, MOST_SECONDS, Line, Name, Settings, setting, split_list
from trainer.errors import ConfigError

MAX_REPLAY = 10_000


Percentage = Annotated[int, Field(ge=1, le=99)]


def _percentages(value: Any) -> Any:
    """Return the numbers of a text, one number or several."""
    items = split_list((value,) if isinstance(value, int) else value)
    if not isinstance(items, tuple):
        return items
    return tuple(int(item) if re.fullmatch("[0-9]{1,2}", str(item)) else item for item in items)


Canary = Annotated[
    tuple[Percentage, ...],
    BeforeValidator(_percentages, json_schema_input_type=int | str | tuple[Percentage, ...]),
]


def _check_machine(machine: str) -> str:
    if problem := machine_problem(machine, is_serving=True):
        raise ValueError(problem)
    return machine


class ReleaseOptions(Settings):
    """Settings of a release; the defaults move all traffic at once, as soon as the model is right.

    The replay needs a log of the endpoint's requests (`log_requests`); without one there is none.
    """

    group: ClassVar[str] = "release"
    replay: int = setting(
        "number of logged requests that a new version answers before it gets traffic; 0 for none",
        default=200,
        ge=0,
        le=MAX_REPLAY,
    )
    max_changed: float | None = setting(
        "share of the replayed answers that may differ from what the version that serves returned;"
        " default: any, as a new training changes some",
        default=None,
        ge=0,
        le=1,
    )
    max_change: float = setting(
        "relative difference up to which two numbers are the same answer, of a model without"
        " classes",
        default=0.01,
        ge=0,
        le=MOST,
    )
    max_slowdown: float = setting(
        "largest median ratio of a replayed request's latency to the latency before",
        default=1.25,
        gt=1,
        le=1000,
    )
    promote: bool = setting(
        "promote a model that passes; false ends the run after its evaluation", default=True
    )
    approval: Literal["none", "required"] = setting(
        "`required`: the version of a model that passes waits for `trainyard models approve`",
        default="none",
    )
    canary: Canary = setting(
        "shares of the traffic, in percent, that a new version gets one after the other before it"
        " gets all, as 10,25,50; default: no canary",
        default=(),
    )
    canary_seconds: float = setting(
        "duration of each share of the canary", default=60.0, gt=0, le=A_DAY_SECONDS
    )
    max_error_rate: float = setting(
        "share of a new version's requests that may fail in a replay or canary",
        default=0.01,
        ge=0,
        lt=1,
    )
    keep_previous: bool = setting(
        "keep the previous version deployed without traffic, for a rollback within a second",
        default=False,
    )
    log_requests: float | None = setting(
        "share of the endpoint's requests to log, 0 to stop; default: leave the log as it is",
        default=None,
        ge=0,
        le=1,
    )
    log_table: Line = setting(
        "Vertex AI: BigQuery table of the log; default: one that Vertex AI creates in the project",
        default="",
        pattern=r"bq://[^./\s]+(\.[^./\s]+){0,2}",
        form="bq://PROJECT.DATASET.TABLE",
    )
    timeout_seconds: float = setting(
        "time, besides a canary's, after which a step of the release ends itself as failed",
        default=LONG_SECONDS,
        gt=0,
        le=MOST_SECONDS,
    )

    @model_validator(mode="after")
    def _check_canary(self) -> Self:
        if sorted(set(self.canary)) != [*self.canary]:
            raise ConfigError(
                f"release.canary is {','.join(map(str, self.canary))}; it must be whole numbers,"
                " separated by commas, each above the one before, as 10,25,50"
            )
        return self


METRICS = {
    "cpu_target": "aiplatform.googleapis.com/prediction/online/cpu/utilization",
    "accelerator_target": "aiplatform.googleapis.com/prediction/online/accelerator/duty_cycle",
}


def _target(words: str) -> Any:
    text = f"{words} in percent that autoscaling keeps to; default: 60, Vertex AI's own"
    return setting(text, default=None, ge=1, le=100)


class ServingOptions(Settings):
    """Machines of a deployed model; a service on this machine keeps them and runs one process."""

    group: ClassVar[str] = "serving"
    machine: Annotated[Name, AfterValidator(_check_machine)] = setting(
        "machine type of the endpoint", default="n1-standard-4"
    )
    accelerator: Accelerator | None = setting("GPUs of each machine", default=None, form=GPUS)
    min_replicas: int = setting("least machines of a version", default=1, ge=1, le=1000)
    max_replicas: int | None = setting(
        "most machines of a version; default: min_replicas", default=None, ge=1, le=1000
    )
    cpu_target: int | None = _target("use of the CPUs")
    accelerator_target: int | None = _target("duty cycle of the GPUs")

    @model_validator(mode="after")
    def _check(self) -> Self:
        machine = Machine.model_construct(type=self.machine, accelerator=self.accelerator)
        errors = [
            accelerator_error(machine, field="serving.accelerator"),
        ]
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            errors.append(
                f"serving.max_replicas is {self.max_replicas}; it must be at least"
                f" serving.min_replicas, {self.min_replicas}"
            )
        if self.accelerator_target and not self.accelerator:
            errors.append("serving.accelerator_target needs serving.accelerator")
        if found := [*filter(None, errors)]:
            raise ConfigError(*found)
        return self

    @property
    def resources(self) -> Json:
        """The `dedicatedResources` of a deployed model."""
        machine: Json = {"machineType": self.machine}
        if self.accelerator:
            machine["acceleratorType"] = self.accelerator.type
            machine["acceleratorCount"] = self.accelerator.count
        targets = [(metric, getattr(self, name)) for name, metric in METRICS.items()]
        specs = [{"metricName": metric, "target": target} for metric, target in targets if target]
        return present(
            {
                "machineSpec": machine,
                "minReplicaCount": self.min_replicas,
                "maxReplicaCount": self.max_replicas or self.min_replicas,
                "autoscalingMetricSpecs": specs,
            }
        )
