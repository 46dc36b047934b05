"""Settings of batch_predict, checked before any row is read."""

import dataclasses

from components.shared.text.json_object import Options
from trainer.config.settings import check_settings, setting

FORMATS = ("jsonl", "parquet")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """All settings of batch_predict; `beam_options` are Beam's own flags."""

    format: str = setting(
        "format of the predictions", default="jsonl", choices=FORMATS, metavar="NAME"
    )
    max_errors: float = setting(
        "share of the rows that may have no prediction; more fail the run",
        default=0.05,
        at_least=0,
        at_most=1,
        metavar="SHARE",
    )
    time_zone: str = setting(
        "time zone of a table's times, as the setting of prepare; default: as declared",
        default="",
        metavar="NAME",
    )
    beam_options: tuple[str, ...] = setting("Beam's own flags", default=(), has_flag=False)

    def __post_init__(self) -> None:
        check_settings(self)
