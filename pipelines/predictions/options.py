"""Settings of a prediction of files, checked before any row is read."""

import dataclasses

from trainer.config.settings import check_settings, setting

FORMATS = ("jsonl", "parquet")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """All settings of a prediction of files."""

    format: str = setting(
        "format of the predictions", default="jsonl", choices=FORMATS, metavar="NAME"
    )
    max_errors: float = setting(
        "share of the rows that may have no prediction; more fail the command",
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

    def __post_init__(self) -> None:
        check_settings(self)
