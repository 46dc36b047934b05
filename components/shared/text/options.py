"""Settings of a step, which a run has as one parameter: a JSON object."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from components.shared.text.json_object import parse_object
from trainer.config.settings import make_settings


class Options:
    """Base of dataclasses of settings; `parameter` is the run's parameter that has them."""

    parameter: ClassVar[str] = "options"

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the options; ConfigError names an unknown key or a value that is not allowed."""
        return make_settings(cls, values, name=cls.parameter)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the options of a parameter; "" has the defaults."""
        return cls.from_values(parse_object(text or "{}", name=cls.parameter))
