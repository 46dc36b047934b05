"""The progress line of a training job, formatted and parsed."""

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"(?P<replica>[a-z]+/\d+) step (?P<step>\d+)/(?P<total>\d+)"
    r" loss (?P<loss>\S+) accuracy (?P<accuracy>\S+) (?P<speed>[\d,]+) examples/s"
    r" (?P<step_ms>[\d.]+) ms/step (?P<minutes>\d+):(?P<seconds>\d\d) left"
)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a job; loss and accuracy are those of the steps since the last line."""

    replica: str
    step: int
    total_steps: int
    loss: float
    accuracy: float
    examples_per_second: int
    step_ms: float
    seconds_left: int


def format_progress(progress: Progress) -> str:
    """Return the line without the replica's name, which the log's formatter prepends."""
    minutes, seconds = divmod(progress.seconds_left, 60)
    return (
        f"step {progress.step}/{progress.total_steps} loss {progress.loss:.4f}"
        f" accuracy {progress.accuracy:.4f} {progress.examples_per_second:,} examples/s"
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
        accuracy=float(match["accuracy"]),
        examples_per_second=int(match["speed"].replace(",", "")),
        step_ms=float(match["step_ms"]),
        seconds_left=60 * int(match["minutes"]) + int(match["seconds"]),
    )
