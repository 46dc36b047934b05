"""The progress line of a training job, formatted and parsed."""

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"(?P<replica>[a-z]+/\d+) step (?P<step>\d+)/(?P<total>\d+)"
    r" loss (?P<loss>\S+)( accuracy (?P<accuracy>\S+))? (?P<speed>[\d,]+) examples/s"
    r" (?P<step_ms>[\d.]+) ms/step (?P<minutes>\d+):(?P<seconds>\d\d) left"
)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a job; loss and accuracy, if measured, are those since the last line."""

    replica: str
    step: int
    total_steps: int
    loss: float
    accuracy: float | None
    examples_per_second: int
    step_ms: float
    seconds_left: int


def format_progress(progress: Progress) -> str:
    """Return the line without the replica's name, which the log's formatter prepends."""
    minutes, seconds = divmod(progress.seconds_left, 60)
    accuracy = "" if progress.accuracy is None else f" accuracy {progress.accuracy:.4f}"
    return (
        f"step {progress.step}/{progress.total_steps} loss {progress.loss:.4f}"
        f"{accuracy} {progress.examples_per_second:,} examples/s"
        f" {progress.step_ms:.1f} ms/step {minutes}:{seconds:02d} left"
    )


def parse_progress(line: str) -> Progress | None:
    """Return the progress in a log line, or None if it is another line."""
    match = _LINE.search(line)
    if match is None:
        return None
    return Progress(
        replica=match["replica"],
        step=int(match["step"]),
        total_steps=int(match["total"]),
        loss=float(match["loss"]),
        accuracy=None if match["accuracy"] is None else float(match["accuracy"]),
        examples_per_second=int(match["speed"].replace(",", "")),
        step_ms=float(match["step_ms"]),
        seconds_left=60 * int(match["minutes"]) + int(match["seconds"]),
    )
