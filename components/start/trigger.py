"""Triggers: conditions besides the clock under which a run trains."""

from dataclasses import dataclass
from typing import ClassVar

from components.shared.text.json_object import Options
from trainer.config.settings import check_settings, setting

# Verdicts on the data of a run: train, compare the new examples first, or end the run.
TRAIN, COMPARE, NOTHING_NEW = "train", "compare", "nothing new"


@dataclass(frozen=True, kw_only=True)
class Trigger(Options):
    """Conditions of which one must hold for a run to train; without any, every run trains.

    They compare the run's data with the promoted version's; without one, a run trains.
    """

    parameter: ClassVar[str] = "trigger"
    new_files: bool = setting(
        "train if there is a file that the promoted version has not seen", default=False
    )
    drift: float = setting(
        "train if a feature has drifted since the promoted version by a PSI above this; 0: no"
        " condition",
        default=0.0,
        at_least=0,
        at_most=100,
    )
    cool_down: str = setting(
        "time after a training in which no other one starts, such as 12h or 7d",
        default="",
        pattern=r"[1-9]\d{0,3}[hdw]",
        form="a number of hours, days or weeks, such as 12h, 7d or 2w",
    )

    def __post_init__(self) -> None:
        check_settings(self, label=lambda name: f"trigger.{name}")
