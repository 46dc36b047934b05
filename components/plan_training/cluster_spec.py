"""A cluster that can train, and the JSON in which it travels through the pipeline."""

import json
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any

from components.plan_training.checks import SHORT_NAMES, Names, check_shape
from components.plan_training.findings import Findings
from components.plan_training.shape import Shape
from components.plan_training.spellings import short
from components.shared.text.json_object import parse_object
from trainer import Json


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
