"""Beam's options: the runner, and how it spreads over the cores of this machine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# Beam's `DirectRunner` first tries to download Prism; this is the one that runs in this process.
IN_MEMORY_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
DIRECT_RUNNERS = {"", "DirectRunner"}


def pipeline_options(flags: Sequence[str]) -> "PipelineOptions":
    """The options for Beam's flags; without `--runner`, all runs in this process."""
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    options = PipelineOptions(list(flags))
    standard = options.view_as(StandardOptions)
    if (standard.runner or "") in DIRECT_RUNNERS:
        standard.runner = IN_MEMORY_RUNNER
    return options


def runner_flags(runner: str, *, num_workers: int, mode: str) -> tuple[str, ...]:
    """Beam's flags for a runner.

    Args:
        runner: `DirectRunner`, or any other that Beam knows; empty for the flags' own.
        num_workers: of the DirectRunner; one works in this thread.
        mode: `multi_threading` or `multi_processing`. Threads start at once and are enough, for
            parsing, encoding and compressing let other threads run; processes import everything.
    """
    flags = (f"--runner={runner}",) if runner else ()
    if num_workers == 1:
        return flags
    return (*flags, f"--direct_num_workers={num_workers}", f"--direct_running_mode={mode}")
