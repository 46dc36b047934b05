"""Machine types of Vertex AI's training, and the GPUs that each of them can have.

https://cloud.google.com/vertex-ai/docs/training/configure-compute
"""

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    ConfigDict,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from trainer import Json
from trainer.cluster.roles import MAX_REPLICAS
from trainer.config.settings import Name, Settings, setting
from trainer.errors import did_you_mean

# vCPUs by family; a machine type is FAMILY-VCPUS.
FAMILIES = {
    "c2-standard": (4, 8, 16, 30, 60),
    "e2-highcpu": (16, 32),
    "e2-highmem": (2, 4, 8, 16),
    "e2-standard": (4, 8, 16, 32),
    "g2-standard": (4, 8, 12, 16, 24, 32, 48, 96),
    "n1-highcpu": (16, 32, 64, 96),
    "n1-highmem": (2, 4, 8, 16, 32, 64, 96),
    "n1-standard": (4, 8, 16, 32, 64, 96),
    "n2-highcpu": (16, 32, 48, 64, 80),
    "n2-highmem": (2, 4, 8, 16, 32, 48, 64, 80),
    "n2-standard": (4, 8, 16, 32, 48, 64, 80),
}
# Machines with built-in GPUs.
_BUILT_IN = {
    "NVIDIA_L4": {f"g2-standard-{size}": 1 for size in (4, 8, 12, 16, 32)}
    | {"g2-standard-24": 2, "g2-standard-48": 4, "g2-standard-96": 8},
    "NVIDIA_TESLA_A100": {f"a2-highgpu-{count}g": count for count in (1, 2, 4, 8)}
    | {"a2-megagpu-16g": 16},
    "NVIDIA_A100_80GB": {f"a2-ultragpu-{count}g": count for count in (1, 2, 4, 8)},
    "NVIDIA_H100_80GB": {f"a3-highgpu-{count}g": count for count in (1, 2, 4, 8)},
    "NVIDIA_H100_MEGA_80GB": {"a3-megagpu-8g": 8},
    "NVIDIA_H200_141GB": {"a3-ultragpu-8g": 8},
}
BUILT_IN_GPUS = {
    machine: (gpu, count)
    for gpu, machines in _BUILT_IN.items()
    for machine, count in machines.items()
}
# GPUs that can be attached to an n1 machine: (most GPUs, most vCPUs per GPU).
_N1_GPUS = {
    "NVIDIA_TESLA_P4": (4, 24),
    "NVIDIA_TESLA_P100": (4, 16),
    "NVIDIA_TESLA_T4": (4, 24),
    "NVIDIA_TESLA_V100": (8, 12),
}
GPU_TYPES = (*_N1_GPUS, *_BUILT_IN)
RETIRED_GPUS = {"NVIDIA_TESLA_K80": "NVIDIA_TESLA_T4"}
MACHINES = {
    *BUILT_IN_GPUS,
    *(f"{family}-{size}" for family, sizes in FAMILIES.items() for size in sizes),
}


# `c3-standard-4-lssd`, `a2-highgpu-1g`, `ct5lp-hightpu-1t`.
MACHINE_TYPE = re.compile(r"[a-z]{1,4}[0-9]{1,2}[a-z]{0,2}-[a-z]{3,12}(-[a-z0-9]{1,8}){1,3}")


class Accelerator(Settings):
    """GPUs of one type in one machine."""

    model_config = ConfigDict(revalidate_instances="always")  # a spelling reads them unchecked
    type: Name = setting("type of the GPU, as NVIDIA_TESLA_T4")
    count: int = setting("GPUs of each machine", default=1, ge=1, le=MAX_REPLICAS)

    def __str__(self) -> str:
        return f"{self.count} {self.type}"


def _check_type(machine: str) -> str:
    if problem := machine_problem(machine):
        raise ValueError(problem)
    return machine


MachineType = Annotated[Name, AfterValidator(_check_type)]
GPUS = "their type and number, as {type: NVIDIA_TESLA_T4, count: 1}"


class Machine(Settings):
    """A machine type with its GPUs, or as a text the type alone."""

    model_config = ConfigDict(revalidate_instances="always")
    type: MachineType = setting("machine type, as n1-standard-4", alias="machine")
    accelerator: Accelerator | None = setting("GPUs of the machine", default=None, form=GPUS)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"machine": value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> str | Json:
        return write(self) if self.accelerator else self.type

    def __str__(self) -> str:
        return f"{self.type} with {self.accelerator}" if self.accelerator else self.type


def gpu_counts(machine: str, gpu: str) -> list[int]:
    """Return the allowed numbers of GPUs of a type on a machine type; empty if it takes none."""
    if machine in BUILT_IN_GPUS:
        built_in, count = BUILT_IN_GPUS[machine]
        return [count] if gpu == built_in else []
    if not machine.startswith("n1-") or gpu not in _N1_GPUS:
        return []
    most, most_vcpus = _N1_GPUS[gpu]
    vcpus = int(machine.rsplit("-", 1)[1])
    return [count for count in (1, 2, 4, 8) if count <= most and vcpus <= count * most_vcpus]


def machine_problem(machine: str, *, is_serving: bool = False) -> str:
    """Return what is allowed instead of a machine type; "" if it is one.

    Of an unknown family only the form is checked; prediction servers may have other sizes.
    """
    if not MACHINE_TYPE.fullmatch(machine):
        return (
            f"it must be a machine type, as n1-standard-4: a family ({', '.join(FAMILIES)}, or"
            " another of Vertex AI's) and a size"
        )
    families = {name.partition("-")[0] for name in MACHINES}
    if machine in MACHINES or machine.partition("-")[0] not in families:
        return ""
    family = machine.rsplit("-", 1)[0]
    sizes = sorted((name for name in MACHINES if name.startswith(f"{family}-")), key=_size)
    if is_serving and sizes:
        return ""
    hint = "" if sizes else did_you_mean(machine, MACHINES)
    return f"{hint} allowed are {', '.join(sizes or sorted(MACHINES))}".lstrip()


def accelerator_error(machine: Machine, *, field: str) -> str:
    """Return the error for the accelerator of a machine, or ""."""
    gpus, built_in = machine.accelerator, BUILT_IN_GPUS.get(machine.type)
    if gpus is None:
        return _missing(machine.type, field=field, built_in=built_in) if built_in else ""
    if gpus.type in RETIRED_GPUS:
        return f"{field}.type is {gpus.type!r}, which is retired; use {RETIRED_GPUS[gpus.type]!r}"
    if gpus.type not in GPU_TYPES:
        hint = did_you_mean(gpus.type, GPU_TYPES)
        return f"{field}.type is {gpus.type!r};{hint} allowed are {', '.join(GPU_TYPES)}"
    if machine.type not in MACHINES:
        return ""
    counts = gpu_counts(machine.type, gpus.type)
    if counts and gpus.count not in counts:
        allowed = " or ".join(map(str, counts))
        return f"{field}.count is {gpus.count!r}; {machine.type} takes {allowed} of {gpus.type}"
    return "" if counts else _impossible(machine, field=field, built_in=built_in)


def _missing(machine: str, *, field: str, built_in: tuple[str, int]) -> str:
    gpu, count = built_in
    return (
        f"{field} is missing: {machine} comes with {count} {gpu}; write the type {gpu!r} and"
        f" the count {count}"
    )


def _impossible(machine: Machine, *, field: str, built_in: tuple[str, int] | None) -> str:
    gpus = machine.accelerator
    assert gpus is not None
    if built_in:
        can = f"comes with {built_in[1]} {built_in[0]}"
    elif machine.type.startswith("n1-"):
        types = [gpu for gpu in GPU_TYPES if gpu_counts(machine.type, gpu)]
        can = f"takes {', '.join(types)}"
    else:
        can = "takes no GPU; of machines without their own, only n1 do"
    return f"{field}.type is {gpus.type!r}, but {machine.type} {can}"


def _size(machine: str) -> int:
    return int("".join(filter(str.isdigit, machine.rsplit("-", 1)[1])) or 0)
