"""A cluster that can train, and the JSON in which it travels through the pipeline."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.plan_training.checks import check
from components.plan_training.findings import Findings
from components.plan_training.shape import Shape
from components.plan_training.spellings import short
from trainer.errors import ClusterError


@dataclass(frozen=True, kw_only=True)
class ClusterSpec(Shape):
    """A cluster that can train.

    Raises:
        ClusterError: it cannot; says for each reason which field, why, and what to write instead.
    """

    def __post_init__(self) -> None:
        findings = Findings()
        # From the command line they come as plain mappings.
        for key in ("accelerator", "machines"):
            given = {key: getattr(self, key)}
            object.__setattr__(self, key, short.read(given, findings)[key])
        check(self, findings)
        findings.raise_errors()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ClusterSpec":
        """Builds the spec from the short form; an unknown key is an error."""
        findings = Findings()
        known = short.read(values, findings)
        findings.raise_errors()
        return cls(**known)

    @classmethod
    def from_json(cls, text: str) -> "ClusterSpec":
        """Builds the spec from the JSON string that travels through the pipeline."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ClusterError(f"the cluster must be a JSON object, not {text!r}")
        return cls.from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """The short form."""
        return short.write(self)

    def to_json(self) -> str:
        """The JSON string that travels through the pipeline."""
        return json.dumps(self.to_dict(), sort_keys=True)
