"""What makes a cluster impossible, or a waste; all of it at once."""

from collections.abc import Mapping

from components.plan_training.findings import Findings
from components.plan_training.machines import (
    MACHINES,
    Accelerator,
    accelerator_error,
    machine_error,
)
from components.plan_training.shape import COUNT_KEYS, RESTARTS, Shape
from trainer.cluster.roles import MAX_REPLICAS, STRATEGIES, find_role_errors, max_gpus
from trainer.suggest import did_you_mean

_LEAST = {
    "chief": 0,
    "workers": 0,
    "parameter_servers": 0,
    "evaluators": 0,
    "timeout_seconds": 1,
}
_CHOICES = {"strategy": tuple(STRATEGIES), "restarts": RESTARTS}
# What messages call a field, where a file has other words for it; see `field_name`.
Names = Mapping[str, str]
_MACHINE_KEYS = ("machine", "accelerator")
SHORT_NAMES: Names = {}


def check(shape: Shape, findings: Findings, *, names: Names = SHORT_NAMES) -> None:
    """Adds what is wrong with the shape; with the roles only where the numbers are numbers.

    A file that has errors already, as a key with a typing error, may lack numbers because of them:
    its roles are not looked at.
    """
    is_complete = not findings.errors
    wrong = _wrong_values(shape, names)
    findings.errors += wrong.values()
    if is_complete and not set(wrong) & {"strategy", *COUNT_KEYS.values()}:
        findings.errors += find_role_errors(
            shape.strategy, shape.counts(), names=_role_names(names)
        )
    if "machine" not in wrong and not set(wrong) & {"strategy", *COUNT_KEYS.values()}:
        _check_machines(shape, findings, names)
    if not findings.errors:
        findings.warnings += _idle_gpus(shape, names)


def field_name(shape: Shape, names: Names, key: str, role: str) -> str:
    """What the file calls the `machine` or the `accelerator` of a role."""
    if found := names.get(f"{key}.{role}"):
        return found
    own = COUNT_KEYS[role]
    return f"machines.{own}.{key}" if own in shape.machines else key


def _wrong_values(shape: Shape, names: Names) -> dict[str, str]:
    wrong = {}
    for key, allowed in _CHOICES.items():
        value = getattr(shape, key)
        if value not in allowed:
            hint = did_you_mean(value, allowed)
            listed = ", ".join(map(repr, allowed))
            wrong[key] = f"{names.get(key, key)} is {value!r};{hint} allowed are {listed}"
    for key, least in _LEAST.items():
        value = getattr(shape, key)
        if type(value) is not int or value < least:
            wrong[key] = (
                f"{names.get(key, key)} is {value!r}; it must be a whole number of at least {least}"
            )
        elif key in COUNT_KEYS.values() and value > MAX_REPLICAS:
            wrong[key] = f"{names.get(key, key)} is {value}; at most {MAX_REPLICAS} are allowed"
    if not isinstance(shape.machine, str) or not shape.machine:
        wrong["machine"] = f"machine is {shape.machine!r}; name a machine type, as n1-standard-4"
    if not isinstance(shape.image, str):
        wrong["image"] = f"image is {shape.image!r}; name a container image, or leave it out"
    if not isinstance(shape.spot, bool):
        wrong["spot"] = f"spot is {shape.spot!r}; it must be true or false"
    return wrong


def _role_names(names: Names) -> dict[str, str]:
    counts = {role: names.get(key, key) for role, key in COUNT_KEYS.items()}
    return {"strategy": names.get("strategy", "strategy"), **counts}


def _check_machines(shape: Shape, findings: Findings, names: Names) -> None:
    errors, warnings = [], []
    for pool in shape.pools():
        machine_key, gpu_key = (field_name(shape, names, key, pool.role) for key in _MACHINE_KEYS)
        machine = pool.machine
        errors.append(
            machine_error(machine.type, field=machine_key)
            or accelerator_error(machine, field=gpu_key)
        )
        if not errors[-1] and machine.type not in MACHINES:
            warnings.append(
                f"{machine_key} {machine.type!r} is not known here: nothing can be said of its"
                " GPUs and its price"
            )
    findings.errors += filter(None, dict.fromkeys(errors))
    findings.warnings += dict.fromkeys(warnings)


def _idle_gpus(shape: Shape, names: Names) -> list[str]:
    """GPUs that would be paid for and do nothing."""
    warnings = []
    for pool in shape.pools():
        gpus: Accelerator | None = pool.machine.accelerator
        if gpus is None:
            continue
        num_used = max_gpus(shape.strategy, pool.role)
        if num_used is not None and num_used < gpus.count:
            where = field_name(shape, names, "accelerator", pool.role)
            warnings.append(
                f"{where}: under {shape.strategy} each {pool.role} uses {num_used} of its"
                f" {gpus}: the rest costs money and does nothing"
            )
    return warnings
