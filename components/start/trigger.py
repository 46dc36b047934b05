"""Triggers: conditions besides the clock under which a run trains."""

from typing import ClassVar

from trainer.config.settings import Line, Settings, setting

# Verdicts on the data of a run: train, compare the new examples first, or end the run.
TRAIN, COMPARE, NOTHING_NEW = "train", "compare", "nothing new"


class Trigger(Settings):
    """Conditions of which one must hold for a run to train; without any, every run trains.

    They compare the run's data with the promoted version's; without one, a run trains.
    """

    group: ClassVar[str] = "trigger"
    new_files: bool = setting(
        "train if there is a file that the promoted version has not seen", default=False
    )
    drift: float = setting(
        "train if a feature has drifted since the promoted version by a PSI above this; 0: no"
        " condition",
        default=0.0,
        ge=0,
        le=100,
    )
    cool_down: Line = setting(
        "time after a training in which no other one starts, such as 12h or 7d",
        default="",
        pattern=r"[1-9]\d{0,3}[hdw]",
        form="a number of hours, days or weeks, such as 12h, 7d or 2w",
    )
