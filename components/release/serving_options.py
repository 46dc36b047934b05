"""Settings of the machines that serve a model: `dedicatedResources` of a deployed model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from components.plan_training.findings import Findings
from components.plan_training.machines import Machine, accelerator_error, machine_error
from components.plan_training.spellings.short import read_accelerator
from components.shared.text.json_object import Options
from trainer import Json
from trainer.config.settings import check_settings, setting
from trainer.errors import ConfigError

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
        return {
            "machineSpec": machine,
            "minReplicaCount": self.min_replicas,
            "maxReplicaCount": self.max_replicas or self.min_replicas,
            **({"autoscalingMetricSpecs": specs} if specs else {}),
        }
