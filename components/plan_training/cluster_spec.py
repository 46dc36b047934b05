"""A cluster that can train, and the JSON in which it travels through the pipeline."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass
from typing import Any

from components.plan_training.findings import Findings
from components.plan_training.machines import MACHINES, accelerator_error, machine_error
from components.plan_training.shape import COUNT_KEYS, Shape
from components.plan_training.spellings import short
from components.shared.text.json_object import parse_object
from trainer import Json
from trainer.cluster.roles import find_role_errors, max_gpus
from trainer.config.settings import check
from trainer.errors import ConfigError

# Names of the fields of Shape in a file, where they differ, for messages; `machine.ROLE` and
# `accelerator.ROLE` are for the machine and the accelerator of one role.
Names = Mapping[str, str]
SHORT_NAMES: Names = {}


@dataclass(frozen=True, kw_only=True)
class ClusterSpec(Shape):
    """A cluster that can train.

    Args:
        findings: errors and warnings of its file, to which its own are added.
        names: names of the fields in that file.

    Raises:
        ClusterError: it cannot; has the field, the value and the remedy for each reason.
    """

    findings: InitVar[Findings | None] = None
    names: InitVar[Names] = SHORT_NAMES

    def __post_init__(self, findings: Findings | None, names: Names) -> None:
        findings = findings or Findings()
        # The command line and the tests give them as plain mappings.
        for key in ("accelerator", "machines"):
            field = {key: getattr(self, key)}
            object.__setattr__(self, key, short.read(field, findings)[key])
        check_shape(self, findings, names=names)
        findings.raise_errors()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ClusterSpec":
        """Return the cluster of the short form; an unknown key raises ClusterError."""
        findings = Findings()
        known = short.read(values, findings)
        findings.raise_errors()
        return cls(**known)

    @classmethod
    def from_json(cls, text: str) -> "ClusterSpec":
        """Return the cluster of the pipeline's parameter; ConfigError if it is not one."""
        return cls.from_dict(parse_object(text, name="cluster"))

    def to_dict(self) -> Json:
        """Return the short form."""
        return short.write(self)

    def to_json(self) -> str:
        """Return the pipeline's parameter."""
        return json.dumps(self.to_dict(), sort_keys=True)


def check_shape(shape: Shape, findings: Findings, *, names: Names = SHORT_NAMES) -> None:
    """Add the errors and warnings of a shape to `findings`.

    The rules between roles are skipped if a file has errors already: a mistyped key could be the
    reason that a number is missing.
    """
    had_errors = bool(findings.errors)
    wrong = _wrong_values(shape, names)
    findings.errors += wrong.values()
    if not wrong.keys() & {"strategy", *COUNT_KEYS.values()}:
        if not had_errors:
            roles = {role: names.get(key, key) for role, key in COUNT_KEYS.items()}
            roles["strategy"] = names.get("strategy", "strategy")
            findings.errors += find_role_errors(shape.strategy, shape.counts(), names=roles)
        if "machine" not in wrong:
            _check_machines(shape, findings, names)
    if not findings.errors:
        findings.warnings += _idle_gpus(shape, names)


def _wrong_values(shape: Shape, names: Names) -> dict[str, str]:
    wrong = {}
    for field in dataclasses.fields(shape):
        if not field.metadata:  # read by the spellings
            continue
        try:
            check(field, getattr(shape, field.name), name=names.get(field.name, field.name))
        except ConfigError as error:
            wrong[field.name] = str(error)
    return wrong


def _name(shape: Shape, names: Names, key: str, role: str) -> str:
    if name := names.get(f"{key}.{role}"):
        return name
    own = COUNT_KEYS[role]
    return f"machines.{own}.{key}" if own in shape.machines else key


def _check_machines(shape: Shape, findings: Findings, names: Names) -> None:
    errors, warnings = [], []
    for pool in shape.pools():
        machine, name = pool.machine, _name(shape, names, "machine", pool.role)
        error = machine_error(machine.type, field=name) or accelerator_error(
            machine, field=_name(shape, names, "accelerator", pool.role)
        )
        if error:
            errors.append(error)
        elif machine.type not in MACHINES:
            warnings.append(
                f"{name} is {machine.type!r}, which is not known here: its GPUs and its price"
                " cannot be checked"
            )
    findings.errors += dict.fromkeys(errors)
    findings.warnings += dict.fromkeys(warnings)


def _idle_gpus(shape: Shape, names: Names) -> Iterator[str]:
    """Yield a warning for each pool with GPUs that would be paid for but not used."""
    for pool in shape.pools():
        gpus, num_used = pool.machine.accelerator, max_gpus(shape.strategy, pool.role)
        if gpus and num_used is not None and num_used < gpus.count:
            yield (
                f"{_name(shape, names, 'accelerator', pool.role)}: under {shape.strategy} each"
                f" {pool.role} uses {num_used} of its {gpus}: the rest costs money but is idle"
            )
