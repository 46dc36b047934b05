"""Settings of a prediction of files, checked before any row is read."""

from typing import Literal

from trainer.config.settings import Line, Settings, setting


class PredictOptions(Settings):
    """All settings of a prediction of files."""

    group = "predict"

    format: Literal["jsonl", "parquet"] = setting("format of the predictions", default="jsonl")
    max_errors: float = setting(
        "share of the rows that may have no prediction; more fail the command",
        default=0.05,
        ge=0,
        le=1,
    )
    time_zone: Line = setting(
        "time zone of a table's times, as the setting of prepare; default: as declared",
        default="",
    )
