"""Errors and warnings of a cluster file, and the parts of a file in another product's spelling."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from trainer.cluster.roles import MAX_REPLICAS
from trainer.config.settings import MOST_SECONDS, Settings, SettingsError, refusals
from trainer.errors import ClusterError, ConfigError


@dataclass
class Findings:
    """Errors, which make a cluster unusable, and warnings."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def raise_errors(self) -> None:
        """Raise ClusterError if there are errors."""
        if self.errors:
            raise ClusterError(*self.errors)


def camel_case(key: str) -> str:
    """Return `machineSpec` for `machine_spec`: protobuf's JSON allows both."""
    first, *rest = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


class FilePart(Settings):
    """A part of a file in another product's spelling, whose keys are in camel case.

    Keys that are null are as if they were left out; `ignored` ones are allowed, but not read.
    """

    model_config = ConfigDict(alias_generator=camel_case)
    ignored: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def read(cls, values: Any, findings: Findings) -> Self | None:
        """Return the part of a file; None with errors, which `findings` gets, and warnings."""
        try:
            with refusals(cls):
                return cls.model_validate(values, context=findings)
        except SettingsError as error:
            findings.errors += error.problems
        return None

    @model_validator(mode="before")
    @classmethod
    def _read_keys(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, Mapping):
            return values
        kept: dict[str, Any] = {}
        unread = []
        for written, value in values.items():
            key = camel_case(str(written))
            if key in kept:
                raise ConfigError(f"{key} is given twice, also as {written!r}")
            if key in cls.ignored:
                unread.append(key)
            elif value is not None:
                kept[key] = value
        if unread and info.context:
            info.context.warnings.append(
                f"{', '.join(unread)}: ignored; a cluster file has only the shape of the cluster"
            )
        return kept


def _digits(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,18}", value) else value


def _seconds(value: Any) -> Any:
    """Return the seconds of a duration that is written as in Google's APIs, `3600s`."""
    match = re.fullmatch(r"(\d{1,18})(\.0+)?s", value) if isinstance(value, str) else None
    return int(match[1]) if match else str(value)


# A number may be a text of digits, as in Google's JSON.
Count = Annotated[int, BeforeValidator(_digits), Field(ge=0, le=MAX_REPLICAS)]
PositiveCount = Annotated[int, BeforeValidator(_digits), Field(ge=1, le=MAX_REPLICAS)]
Seconds = Annotated[
    int,
    BeforeValidator(_seconds),
    Field(ge=1, le=MOST_SECONDS, json_schema_extra={"form": "whole seconds with an s, as 3600s"}),
]
