"""Settings of the gate beside the thresholds, checked before any request is sent."""

from importlib.util import find_spec
from typing import Annotated, ClassVar, Literal, Self

from pydantic import model_validator

from components.evaluate.gate.slice_rules import Rule, parse_rule
from components.time_limit import LONG_SECONDS
from trainer.config.settings import MOST, MOST_SECONDS, OneOf, Settings, Texts, setting
from trainer.errors import ConfigError
from trainer.metrics.directions import COMPARED

NO_BASELINE, CONSTANT, LINEAR, TREES = "none", "constant", "linear", "trees"


class GateOptions(Settings):
    """Conditions of the verdict beside the thresholds of the metrics."""

    group: ClassVar[str] = "gate"
    metric: Annotated[str, OneOf(("", *COMPARED))] = setting(
        "metric to compare models by; default: auc for two classes, accuracy for several, f1 for"
        " several labels at once, rmse for a number",
        default="",
    )
    min_gain: float | None = setting(
        "least gain over the default version, in the units of the metric, that the lower end of the"
        " interval must reach; default: any, unless the whole interval is below zero",
        default=None,
        ge=-MOST,
        le=MOST,
    )
    confidence: float = setting("confidence of the intervals of gains", default=0.95, ge=0.5, lt=1)
    baseline: Literal["linear", "trees", "constant", "none"] = setting(
        "simple model to compare with: constant (the largest class, or the mean), which every"
        " version must beat, linear or trees (gradient-boosted, by scikit-learn; a first version"
        " must also be as good as it) or none",
        default=LINEAR,
    )
    folds: int | None = setting(
        "parts of all rows that judge the model in turn, after a training on the others; 0: the"
        " test split judges; default: 5 for tables and records of fewer than 500 rows, else 0;"
        " trainyard tune takes as many, of train and eval",
        default=None,
        ge=0,
        le=20,
    )
    slices: Texts = setting(
        "parts of the test split that may not get worse: FEATURE (each value, or quarters of a"
        " number), missing(FEATURE), buckets(FEATURE; 5; 20), FEATURE > 20, combined by &",
        default=(),
    )
    slice_min_examples: int = setting(
        "examples that a slice must have to be judged", default=50, ge=2, le=MOST
    )
    slice_margin: float = setting(
        "share of the default version's metric by which a slice may be surely worse",
        default=0.05,
        ge=0,
        le=100,
    )
    timeout_seconds: float = setting(
        "time after which evaluate ends itself as failed",
        default=LONG_SECONDS,
        gt=0,
        le=MOST_SECONDS,
    )
    keep_challenger: bool = setting(
        "register a model that did not pass as a version with the alias challenger", default=False
    )
    max_model_mb: float | None = setting(
        "megabytes that the files of a model may have", default=None, gt=0, le=1_000_000
    )
    max_latency_ms: float | None = setting(
        "99th percentile of the time that its server may take for a request",
        default=None,
        gt=0,
        le=3_600_000,
    )
    latency_clients: int = setting(
        "clients that send requests while the latency is measured",
        default=1,
        ge=1,
        le=256,
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for text in self.slices:
            parse_rule(text)
        if self.baseline == TREES and not find_spec("sklearn"):
            raise ConfigError(
                "gate.baseline is 'trees', which needs scikit-learn: pip install"
                " scikit-learn; for Vertex AI, name it in requirements.txt"
            )
        return self

    @property
    def rules(self) -> list[Rule]:
        """The rules of the slices."""
        return [parse_rule(text) for text in self.slices]
