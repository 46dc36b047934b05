"""Our own spelling of a cluster: a few keys, most of which may be left out."""

from collections.abc import Mapping
from typing import Any

from components.plan_training.findings import Findings, Section, unknown_key
from components.plan_training.machines import Accelerator, Machine
from components.plan_training.shape import COUNT_KEYS, DEFAULTS, KEYS, Shape

_ALWAYS = ("strategy", "machine", "timeout_seconds")


def read(values: Mapping[Any, Any], findings: Findings) -> dict[str, Any]:
    """The fields of a Shape; an error for each key that is none."""
    known: dict[str, Any] = {}
    for key, value in values.items():
        if key == "accelerator":
            known[key] = read_accelerator(value, findings, path=key)
        elif key == "machines":
            known[key] = read_machines(value, findings)
        elif key in KEYS:
            known[key] = value
        else:
            findings.errors.append(unknown_key(key, KEYS))
    return known


def read_accelerator(value: Any, findings: Findings, *, path: str) -> Accelerator | None:
    """`{type: NVIDIA_TESLA_T4, count: 1}`, or None."""
    if value is None or isinstance(value, Accelerator):
        return value
    section = Section(value, path=path, findings=findings, keys=("type", "count"))
    if isinstance(value, Mapping) and "type" not in section:
        findings.errors.append(f"{path}.type is missing; name a GPU, as NVIDIA_TESLA_T4")
    kind = section.text("type")
    count = section.count("count", default=1, at_least=1)
    return Accelerator(type=kind, count=count) if kind else None


def read_machines(value: Any, findings: Findings) -> dict[str, Machine]:
    """`{parameter_servers: n1-highmem-8, chief: {machine: …, accelerator: …}}`."""
    section = Section(value, path="machines", findings=findings, keys=tuple(COUNT_KEYS.values()))
    machines = {}
    for key in COUNT_KEYS.values():
        given, path = section.get(key), section.name(key)
        if isinstance(given, Machine):
            machines[key] = given
        elif isinstance(given, str) and given:
            machines[key] = Machine(type=given)
        elif given is not None:
            own = section.section(key, keys=("machine", "accelerator"))
            accelerator = read_accelerator(
                own.get("accelerator"), findings, path=f"{path}.accelerator"
            )
            if isinstance(given, Mapping) and "machine" not in own:
                findings.errors.append(f"{path}.machine is missing; name a machine type")
            if machine := own.text("machine"):
                machines[key] = Machine(type=machine, accelerator=accelerator)
    return machines


def write(shape: Shape) -> dict[str, Any]:
    """What differs from the defaults, and always the strategy, the machine and the time."""
    plain: dict[str, Any] = {
        name: getattr(shape, name)
        for name in KEYS
        if getattr(shape, name) != getattr(DEFAULTS, name) or name in _ALWAYS
    }
    if shape.accelerator:
        plain["accelerator"] = _plain_accelerator(shape.accelerator)
    if shape.machines:
        plain["machines"] = {key: _plain_machine(one) for key, one in shape.machines.items()}
    return plain


def _plain_accelerator(accelerator: Accelerator) -> dict[str, Any]:
    return {"type": accelerator.type, "count": accelerator.count}


def _plain_machine(machine: Machine) -> Any:
    if machine.accelerator is None:
        return machine.type
    return {"machine": machine.type, "accelerator": _plain_accelerator(machine.accelerator)}
