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
