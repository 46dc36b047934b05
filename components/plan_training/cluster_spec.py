"""The shape of a training cluster: how many replicas of which role, on which machines."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

STRATEGIES = ("single", "mirrored", "multi_worker_mirrored", "parameter_server")


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """A chief, and beside it the workers and parameter servers that the strategy asks for.

    Evaluators measure each checkpoint; they may be added to any strategy.

    Raises:
        ValueError: the shape cannot train; says which field, why, and what to write instead.
    """

    strategy: str = "single"
    workers: int = 0
    parameter_servers: int = 0
    evaluators: int = 0
    machine: str = "n1-standard-4"
    timeout_seconds: int = 7200

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(
                f"strategy is {self.strategy!r}; allowed are {', '.join(map(repr, STRATEGIES))}"
            )
        counts = {"workers": 0, "parameter_servers": 0, "evaluators": 0, "timeout_seconds": 1}
        for name, least in counts.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(
                    f"{name} is {value!r}; it must be a whole number of at least {least}"
                )
        if not isinstance(self.machine, str) or not self.machine:
            raise ValueError(f"machine is {self.machine!r}; name a machine type, as n1-standard-4")
        self._check_roles()

    def _check_roles(self) -> None:
        given = f"workers is {self.workers} and parameter_servers is {self.parameter_servers}"
        if self.strategy in ("single", "mirrored") and (self.workers or self.parameter_servers):
            raise ValueError(
                f"strategy {self.strategy!r} trains on the chief alone, but {given}; set both to 0,"
                " or set strategy to 'multi_worker_mirrored' or 'parameter_server'"
            )
        if self.strategy == "parameter_server" and not (self.workers and self.parameter_servers):
            raise ValueError(
                "strategy 'parameter_server' needs at least one worker and one parameter server, "
                f"but {given}"
            )
        if self.strategy == "multi_worker_mirrored" and self.parameter_servers:
            raise ValueError(
                f"strategy 'multi_worker_mirrored' has no parameter servers, but {given}; set"
                " parameter_servers to 0"
            )
        if self.strategy == "multi_worker_mirrored" and not self.workers:
            raise ValueError(
                "strategy 'multi_worker_mirrored' needs at least one worker beside the chief, which"
                " trains as well, but workers is 0; set workers to 1, or strategy to 'single'"
            )
        if self.evaluators > 1:
            raise ValueError(f"evaluators is {self.evaluators}; one measures all checkpoints")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ClusterSpec":
        """Builds the spec from a cluster file's content; an unknown key is an error."""
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise ValueError(
                    f"unknown key {key!r} in the cluster; allowed are {', '.join(known)}"
                )
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> "ClusterSpec":
        """Builds the spec from the JSON string that travels through the pipeline."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(f"the cluster must be a JSON object, not {text!r}")
        return cls.from_dict(values)

    def to_json(self) -> str:
        """The JSON string that travels through the pipeline."""
        return json.dumps(asdict(self), sort_keys=True)

    def __str__(self) -> str:
        counts = [
            (1, "chief"),
            (self.workers, "worker"),
            (self.parameter_servers, "ps"),
            (self.evaluators, "evaluator"),
        ]
        return " + ".join(f"{count} {role}" for count, role in counts if count)
