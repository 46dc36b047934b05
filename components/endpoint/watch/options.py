"""Settings of watch_endpoint, checked before any request is read."""

import dataclasses
from collections.abc import Mapping

from components.prepare_examples.statistics.drift import NOTICEABLE
from components.shared.text.json_object import Options
from trainer.config.settings import check_settings, setting

PSI, PIXELS = "psi", "pixels"
LIMITS = {PSI: NOTICEABLE, PIXELS: 0.25}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WatchOptions(Options):
    """All settings of watch_endpoint."""

    last: int = setting(
        "number of requests to compare with the training data and with as many before them",
        default=1000,
        at_least=1,
        at_most=1_000_000,
    )
    min_instances: int = setting(
        "number of instances below which nothing is compared", default=100, at_least=1
    )
    thresholds: Mapping[str, float] = setting(
        "distances above which a feature has changed, if chance does not explain them; pixels is"
        " the change of an image's mean, or of the logarithm of the standard deviation, in standard"
        " deviations. Those left out keep their defaults",
        factory=lambda: LIMITS,
        choices=tuple(LIMITS),
        above=0,
        metavar="DISTANCES",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "thresholds", {**LIMITS, **self.thresholds})
