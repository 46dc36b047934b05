"""The short form of a cluster: the fields of Shape, most of them optional."""

from collections.abc import Mapping
from typing import Any

from components.plan_training.findings import Findings, Section, unknown_key
from components.plan_training.machines import Accelerator, Machine
from components.plan_training.shape import COUNT_KEYS, DEFAULTS, KEYS, Shape
from trainer import Json

_ALWAYS_WRITTEN = ("strategy", "machine", "timeout_seconds")


def read(values: Mapping[Any, Any], findings: Findings) -> Json:
    """Return the fields of a Shape; an unknown key is an error."""
    fields: Json = {}
    for key, value in values.items():
        if key == "accelerator":
            fields[key] = read_accelerator(value, findings, path=key)
        elif key == "machines":
            fields[key] = _read_machines(value, findings)
        elif key in KEYS:
            fields[key] = value
        else:
            findings.errors.append(unknown_key(key, KEYS))
    return fields


def read_accelerator(value: Any, findings: Findings, *, path: str) -> Accelerator | None:
    """Return the GPUs of `{type: NVIDIA_TESLA_T4, count: 1}`."""
    if value is None or isinstance(value, Accelerator):
        return value
    section = Section(value, path=path, findings=findings, keys=("type", "count"))
    if isinstance(value, Mapping) and "type" not in section:
        findings.errors.append(f"{path}.type is missing; name a GPU, as NVIDIA_TESLA_T4")
    kind = section.text("type")
    count = section.count("count", default=1, at_least=1)
    return Accelerator(type=kind, count=count) if kind else None


def _read_machines(value: Any, findings: Findings) -> dict[str, Machine]:
    section = Section(value, path="machines", findings=findings, keys=tuple(COUNT_KEYS.values()))
    machines = {}
    for key in COUNT_KEYS.values():
        value_of_role, path = section.get(key), section.name(key)
        if isinstance(value_of_role, Machine):
            machines[key] = value_of_role
        elif isinstance(value_of_role, str) and value_of_role:
            machines[key] = Machine(type=value_of_role)
        elif value_of_role is not None:
            own = section.section(key, keys=("machine", "accelerator"))
            accelerator = read_accelerator(
                own.get("accelerator"), findings, path=f"{path}.accelerator"
            )
            if isinstance(value_of_role, Mapping) and "machine" not in own:
                findings.errors.append(f"{path}.machine is missing; name a machine type")
            if machine := own.text("machine"):
                machines[key] = Machine(type=machine, accelerator=accelerator)
    return machines


def write(shape: Shape) -> Json:
    """Return the fields that differ from the defaults, and always strategy, machine and timeout."""
    fields: Json = {
        name: getattr(shape, name)
        for name in KEYS
        if getattr(shape, name) != getattr(DEFAULTS, name) or name in _ALWAYS_WRITTEN
    }
    if shape.accelerator:
        fields["accelerator"] = _write_accelerator(shape.accelerator)
    if shape.machines:
        fields["machines"] = {
            key: _write_machine(machine) for key, machine in shape.machines.items()
        }
    return fields


def _write_accelerator(accelerator: Accelerator) -> Json:
    return {"type": accelerator.type, "count": accelerator.count}


def _write_machine(machine: Machine) -> str | Json:
    if machine.accelerator is None:
        return machine.type
    return {"machine": machine.type, "accelerator": _write_accelerator(machine.accelerator)}
