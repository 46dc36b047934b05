"""Settings of watch_endpoint, checked before any request is read."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from components.prepare_examples.statistics.drift import NOTICEABLE
from trainer.config.settings import MOST, OneOf, Settings, setting

PSI, PIXELS = "psi", "pixels"
LIMITS = {PSI: NOTICEABLE, PIXELS: 0.25}


class WatchOptions(Settings):
    """All settings of watch_endpoint."""

    last: int = setting(
        "number of requests to compare with the training data and with as many before them",
        default=1000,
        ge=1,
        le=1_000_000,
    )
    min_instances: int = setting(
        "number of instances below which nothing is compared", default=100, ge=1, le=MOST
    )
    thresholds: Annotated[
        Mapping[Annotated[str, OneOf((PSI, PIXELS))], Annotated[float, Field(gt=0, le=MOST)]],
        AfterValidator(lambda given: LIMITS | given),
    ] = setting(
        "distances above which a feature has changed, if chance does not explain them; pixels is"
        " the change of an image's mean, or of the logarithm of the standard deviation, in standard"
        " deviations. Those left out keep their defaults",
        default=LIMITS,
    )
