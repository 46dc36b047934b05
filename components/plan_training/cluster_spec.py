"""A cluster that can train, and the JSON in which it travels through the pipeline."""

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import ValidationInfo, model_validator

from components.plan_training.machines import MACHINES, accelerator_error
from components.plan_training.shape import COUNT_KEYS, DEFAULTS, Shape
from trainer import Json
from trainer.cluster.roles import find_role_errors, max_gpus
from trainer.errors import ClusterError

# Names of the fields of Shape in a file, where they differ, for messages; `machine.ROLE` and
# `accelerator.ROLE` are for the machine and the accelerator of one role.
Names = Mapping[str, str]
SHORT_NAMES: Names = {}
# A key of the context of a validation: the names in the file. A file that has errors already is
# checked without the rules between roles: a mistyped key could be the reason for a missing number.
NAMES, HAS_ERRORS = "names", "has_errors"
_ALWAYS_WRITTEN = ("strategy", "machine", "timeout_seconds")


class ClusterSpec(Shape):
    """A cluster that can train."""

    group: ClassVar[str] = "cluster"

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        context = info.context or {}
        names = context.get(NAMES, SHORT_NAMES)
        roles = {role: names.get(key, key) for role, key in COUNT_KEYS.items()}
        roles["strategy"] = names.get("strategy", "strategy")
        errors = []
        if not context.get(HAS_ERRORS):
            errors += find_role_errors(self.strategy, self.counts(), names=roles)
        for pool in self.pools():
            field = _name(self, names, "accelerator", pool.role)
            errors.append(accelerator_error(pool.machine, field=field))
        if found := dict.fromkeys(filter(None, errors)):
            raise ClusterError(*found)
        return self

    def to_dict(self) -> Json:
        """Return what differs from the defaults, and always strategy, machine and timeout."""
        return {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if getattr(self, name) != getattr(DEFAULTS, name) or name in _ALWAYS_WRITTEN
        }

    def to_json(self) -> str:
        """Return the pipeline's parameter."""
        return json.dumps(self.to_dict(), sort_keys=True)


def warnings_of(shape: Shape, names: Names = SHORT_NAMES) -> list[str]:
    """Return the warnings of a cluster that can train."""
    unknown = [
        f"{_name(shape, names, 'machine', pool.role)} is {pool.machine.type!r}, which is not known"
        " here: its GPUs and its price cannot be checked"
        for pool in shape.pools()
        if pool.machine.type not in MACHINES
    ]
    return [*dict.fromkeys(unknown), *_idle_gpus(shape, names)]


def _name(shape: Shape, names: Names, key: str, role: str) -> str:
    if name := names.get(f"{key}.{role}"):
        return name
    own = COUNT_KEYS[role]
    return f"machines.{own}.{key}" if own in shape.machines else key


def _idle_gpus(shape: Shape, names: Names) -> Iterator[str]:
    """Yield a warning for each pool with GPUs that would be paid for but not used."""
    for pool in shape.pools():
        gpus, num_used = pool.machine.accelerator, max_gpus(shape.strategy, pool.role)
        if gpus and num_used is not None and num_used < gpus.count:
            yield (
                f"{_name(shape, names, 'accelerator', pool.role)}: under {shape.strategy} each"
                f" {pool.role} uses {num_used} of its {gpus}: the rest costs money but is idle"
            )
