"""The case that an evaluation decides: a trained model, and what it is judged by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from components.evaluate.gate.options import GateOptions
from components.model_version.champion import Champion


@dataclass(frozen=True, kw_only=True)
class Case:
    """A trained model, and what it is judged by.

    Attributes:
        thresholds: JSON, such as `{"accuracy": 0.985}`.
        gate: settings of GateOptions, a JSON object.
        flags: of the trainer, to train the same on folds; without any there are none.
    """

    model_dir: str
    examples_dir: str
    thresholds: str
    gate: str = "{}"
    champion: Champion = field(default_factory=Champion)
    flags: Sequence[str] = ()

    @cached_property
    def options(self) -> GateOptions:
        """The settings of the gate; ConfigError if they are malformed."""
        return GateOptions.from_json(self.gate)
