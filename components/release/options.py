"""Settings of a release (replay, canary, what stays deployed), and of the machines that serve."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from components.model_version.decisions import REQUIRED
from components.plan_training.findings import Findings
from components.plan_training.machines import Machine, accelerator_error, machine_error
from components.plan_training.spellings.short import read_accelerator
from components.shared.text.json_object import Options, present
from components.time_limit import A_DAY_SECONDS, LONG_SECONDS
from trainer import Json
from trainer.config.settings import MOST_SECONDS, check_settings, setting
from trainer.errors import ConfigError

MAX_REPLAY = 10_000


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(Options):
    """Settings of a release; the defaults move all traffic at once, as soon as the model is right.

    The replay needs a log of the endpoint's requests (`log_requests`); without one there is none.
    """

    parameter: ClassVar[str] = "release"
    replay: int = setting(
        "number of logged requests that a new version answers before it gets traffic; 0 for none",
        default=200,
        at_least=0,
        at_most=MAX_REPLAY,
    )
    max_changed: float | None = setting(
        "share of the replayed answers that may differ from what the version that serves returned;"
        " default: any, as a new training changes some",
        default=None,
        at_least=0,
        at_most=1,
    )
    max_change: float = setting(
        "relative difference up to which two numbers are the same answer, of a model without"
        " classes",
        default=0.01,
        at_least=0,
    )
    max_slowdown: float = setting(
        "largest median ratio of a replayed request's latency to the latency before",
        default=1.25,
        above=1,
        at_most=1000,
    )
    promote: bool = setting(
        "promote a model that passes; false ends the run after its evaluation", default=True
    )
    approval: str = setting(
        "`required`: the version of a model that passes waits for `trainyard models approve`",
        default="none",
        choices=("none", REQUIRED),
    )
    canary: tuple[str, ...] = setting(
        "shares of the traffic, in percent, that a new version gets one after the other before it"
        " gets all, as 10,25,50; default: no canary",
        default=(),
    )
    canary_seconds: float = setting(
        "duration of each share of the canary", default=60.0, above=0, at_most=A_DAY_SECONDS
    )
    max_error_rate: float = setting(
        "share of a new version's requests that may fail in a replay or canary",
        default=0.01,
        at_least=0,
        below=1,
    )
    keep_previous: bool = setting(
        "keep the previous version deployed without traffic, for a rollback within a second",
        default=False,
    )
    log_requests: float | None = setting(
        "share of the endpoint's requests to log, 0 to stop; default: leave the log as it is",
        default=None,
        at_least=0,
        at_most=1,
    )
    log_table: str = setting(
        "Vertex AI: BigQuery table of the log; default: one that Vertex AI creates in the project",
        default="",
        pattern=r"bq://[^./\s]+(\.[^./\s]+){0,2}",
        form="bq://PROJECT.DATASET.TABLE",
    )
    timeout_seconds: float = setting(
        "time, besides a canary's, after which a step of the release ends itself as failed",
        default=LONG_SECONDS,
        above=0,
        at_most=MOST_SECONDS,
    )

    def __post_init__(self) -> None:
        if isinstance(self.canary, int | list | tuple):  # YAML's numbers
            steps = self.canary if isinstance(self.canary, list | tuple) else [self.canary]
            object.__setattr__(self, "canary", tuple(map(str, steps)))
        check_settings(self, label=lambda name: f"release.{name}")
        shares = [int(text) if re.fullmatch("[0-9]{1,2}", text) else 0 for text in self.canary]
        if 0 in shares or sorted(set(shares)) != shares:
            raise ConfigError(
                f"release.canary is {','.join(self.canary)}; it must be whole numbers from 1 to 99,"
                " separated by commas, each above the one before, as 10,25,50"
            )

    @property
    def canary_shares(self) -> list[int]:
        """The shares of the canary, in percent."""
        return [int(text) for text in self.canary]


METRICS = {
    "cpu_target": "aiplatform.googleapis.com/prediction/online/cpu/utilization",
    "accelerator_target": "aiplatform.googleapis.com/prediction/online/accelerator/duty_cycle",
}


def _target(words: str) -> Any:
    text = f"{words} in percent that autoscaling keeps to; default: 60, Vertex AI's own"
    return setting(text, default=None, at_least=1, at_most=100)


@dataclass(frozen=True, kw_only=True)
class ServingOptions(Options):
    """Machines of a deployed model; a service on this machine keeps them and runs one process."""

    parameter: ClassVar[str] = "serving"
    machine: str = setting("machine type of the endpoint", default="n1-standard-4")
    accelerator: Mapping[str, Any] = setting(
        "GPUs of each machine",
        factory=dict,
        form="their type and number, as {type: NVIDIA_TESLA_T4, count: 1}",
    )
    min_replicas: int = setting("least machines of a version", default=1, at_least=1, at_most=1000)
    max_replicas: int | None = setting(
        "most machines of a version; default: min_replicas", default=None, at_least=1, at_most=1000
    )
    cpu_target: int | None = _target("use of the CPUs")
    accelerator_target: int | None = _target("duty cycle of the GPUs")

    def __post_init__(self) -> None:
        check_settings(self, label=lambda name: f"serving.{name}")
        findings, field = Findings(), "serving.accelerator"
        gpus = read_accelerator(self.accelerator or None, findings, path=field)
        machine = Machine(type=self.machine, accelerator=gpus)
        errors = [
            machine_error(self.machine, field="serving.machine", is_serving=True),
            *findings.errors,
            accelerator_error(machine, field=field),
        ]
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            errors.append(
                f"serving.max_replicas is {self.max_replicas}; it must be at least"
                f" serving.min_replicas, {self.min_replicas}"
            )
        if self.accelerator_target and not gpus:
            errors.append(f"serving.accelerator_target needs {field}")
        if error := next(filter(None, errors), ""):
            raise ConfigError(error)

    @property
    def resources(self) -> Json:
        """The `dedicatedResources` of a deployed model."""
        machine: Json = {"machineType": self.machine}
        if self.accelerator:
            machine["acceleratorType"] = self.accelerator["type"]
            machine["acceleratorCount"] = int(self.accelerator.get("count", 1))
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
