"""What every pipeline needs of Beam: its options, its elements, and the one result of all."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# Beam's `DirectRunner` first tries to download Prism; this is the one that runs in this process.
IN_MEMORY_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
DIRECT_RUNNERS = {"", "DirectRunner"}


Element = TypeVar("Element")
Json = dict[str, Any]


def pipeline_options(flags: Sequence[str]) -> "PipelineOptions":
    """The options for Beam's flags; without `--runner`, all runs in this process."""
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    options = PipelineOptions(list(flags))
    standard = options.view_as(StandardOptions)
    if (standard.runner or "") in DIRECT_RUNNERS:
        standard.runner = IN_MEMORY_RUNNER
    return options


def run_pipeline(
    elements: Sequence[Element],
    work: Callable[[Element], Json],
    finish: Callable[[Iterable[Json]], Any],
    *,
    flags: Sequence[str],
) -> None:
    """Runs `work` on each element, spread over the workers, and `finish` once on all results.

    The graph is of Beam's primitives, grouping and mapping. `Create`, `Reshuffle` and
    `CombineGlobally` make one of three times the size, which takes 0.3 s more to build and start.
    """
    import apache_beam as beam

    numbered = list(enumerate(elements))
    with beam.Pipeline(options=pipeline_options(flags)) as pipeline:
        _ = (
            pipeline
            | "Start" >> beam.Impulse()
            | "Elements" >> beam.FlatMap(lambda _: numbered)
            | "SpreadOverWorkers" >> beam.GroupByKey()
            | "Work" >> beam.FlatMap(lambda item: [(None, work(element)) for element in item[1]])
            | "Collect" >> beam.GroupByKey()
            | "Finish" >> beam.Map(lambda item: finish(item[1]))
        )


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
