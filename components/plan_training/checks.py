"""What makes a cluster impossible, or a waste; all of it at once."""

from collections.abc import Mapping

from components.plan_training.findings import Findings
from components.plan_training.machines import (
    MACHINES,
    Accelerator,
    accelerator_error,
    machine_error,
)
from components.plan_training.shape import COUNT_KEYS, RESTARTS, STRATEGIES, Shape
from components.plan_training.suggest import did_you_mean

_LEAST = {
    "chief": 0,
    "workers": 0,
    "parameter_servers": 0,
    "evaluators": 0,
    "timeout_seconds": 1,
}
# Far above any quota: more is a typing error, which should not start so many processes.
MOST_REPLICAS = 500
_CHOICES = {"strategy": STRATEGIES, "restarts": RESTARTS}
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
        findings.errors += _role_errors(shape, names)
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
        elif key in COUNT_KEYS.values() and value > MOST_REPLICAS:
            wrong[key] = f"{names.get(key, key)} is {value}; at most {MOST_REPLICAS} are allowed"
    if not isinstance(shape.machine, str) or not shape.machine:
        wrong["machine"] = f"machine is {shape.machine!r}; name a machine type, as n1-standard-4"
    if not isinstance(shape.image, str):
        wrong["image"] = f"image is {shape.image!r}; name a container image, or leave it out"
    if not isinstance(shape.spot, bool):
        wrong["spot"] = f"spot is {shape.spot!r}; it must be true or false"
    return wrong


def _role_errors(shape: Shape, names: Names) -> list[str]:
    strategy, workers, servers = shape.strategy, shape.workers, shape.parameter_servers
    worker_key, ps_key, chief_key, evaluator_key, strategy_key = (
        names.get(key, key)
        for key in ("workers", "parameter_servers", "chief", "evaluators", "strategy")
    )
    given = f"{worker_key} is {workers} and {ps_key} is {servers}"
    is_alone = strategy in ("single", "mirrored")
    rules = [
        (
            is_alone and (workers or servers),
            f"strategy {strategy!r} trains on the chief alone, but {given}; set both to 0, or set"
            f" {strategy_key} to 'multi_worker_mirrored' or 'parameter_server'",
        ),
        (
            shape.is_asynchronous and not (workers and servers),
            "strategy 'parameter_server' needs at least one worker and one parameter server, but"
            f" {given}",
        ),
        (
            strategy == "multi_worker_mirrored" and servers,
            f"strategy {strategy!r} has no parameter servers, but {given}; set {ps_key} to 0",
        ),
        (
            strategy == "multi_worker_mirrored" and not workers,
            f"strategy {strategy!r} needs at least one worker beside the chief, which trains as"
            f" well, but {worker_key} is 0; set {worker_key} to 1, or strategy to 'single'",
        ),
        (
            shape.chief > 1,
            f"{chief_key} is {shape.chief}; it must be 1, further workers belong in {worker_key}",
        ),
        (
            shape.chief == 0 and strategy != "multi_worker_mirrored",
            f"{chief_key} is 0, but strategy {strategy!r} needs the chief; set it to 1",
        ),
        (
            shape.chief == 0 and strategy == "multi_worker_mirrored" and workers == 1,
            f"{chief_key} is 0 and {worker_key} is 1, which makes one replica; set {worker_key} to"
            " 2 or more",
        ),
        (
            shape.evaluators > 1,
            f"{evaluator_key} is {shape.evaluators}; one measures all checkpoints",
        ),
    ]
    return [message for is_wrong, message in rules if is_wrong]


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
        num_used = _gpus_in_use(shape, pool.role, gpus.count)
        if num_used < gpus.count:
            where = field_name(shape, names, "accelerator", pool.role)
            warnings.append(
                f"{where}: under {shape.strategy} each {pool.role} uses {num_used} of its"
                f" {gpus}: the rest costs money and does nothing"
            )
    return warnings


def _gpus_in_use(shape: Shape, role: str, count: int) -> int:
    if role == "ps":
        return 0
    is_one = shape.is_asynchronous or shape.strategy == "single" or role == "evaluator"
    return min(count, 1) if is_one else count
