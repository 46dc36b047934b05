"""Execution of a Beam pipeline: a function for each element, and one for all results."""

import contextlib
import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from components.prepare_examples.beam import processes
from components.prepare_examples.errors import DataError
from trainer import Json
from trainer.runtime.cores import machine_cores

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

# Beam's `DirectRunner` first tries to download Prism; this runner runs in this process.
IN_MEMORY_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
DIRECT_RUNNERS = {"", "DirectRunner"}
FEW = 3  # a file of each split, for which Beam's start takes longer than the work

Element = TypeVar("Element")
Result = TypeVar("Result")


def pipeline_options(flags: Sequence[str]) -> "PipelineOptions":
    """Return the options for Beam's flags; without `--runner`, for running in this process.

    Workers import our functions: a pickled session of this process would be uploaded for nothing.
    """
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    options = PipelineOptions(["--no_save_main_session", *flags])
    standard = options.view_as(StandardOptions)
    if (standard.runner or "") in DIRECT_RUNNERS:
        standard.runner = IN_MEMORY_RUNNER
    return options


def num_processes(flags: Sequence[str]) -> int:
    """Return how many processes may help the workers in this process; 1 if they run elsewhere.

    Without `--direct_num_workers` it is the number of cores.
    """
    num_cores = machine_cores()
    if not flags:
        return num_cores  # without the import of Beam
    options = pipeline_options(flags).get_all_options()
    is_here = options["direct_running_mode"] != "multi_processing"
    if not is_here or options["runner"] != IN_MEMORY_RUNNER:
        return 1
    is_given = any(flag.startswith("--direct_num_workers") for flag in flags)
    num_workers: int = options["direct_num_workers"] if is_given else 0
    return num_workers or num_cores


@contextlib.contextmanager
def raw_errors() -> Iterator[None]:
    """Raise the error of a worker instead of Beam's copy of it.

    Beam adds the name of its step to the message, makes a RuntimeError of some types, and logs
    the traceback before it raises: its log is silenced meanwhile.
    """
    beam = logging.getLogger("apache_beam")
    level = beam.level
    beam.setLevel(logging.CRITICAL)
    try:
        yield
    except Exception as error:
        raw: BaseException = error
        while " [while running '" in str(raw) and raw.__context__:
            raw = raw.__context__
        if raw is error:
            raise
        raise raw from None
    finally:
        beam.setLevel(level)


@raw_errors()
def run_pipeline(
    elements: Sequence[Element],
    work: Callable[[Element], Result],
    finish: Callable[[Iterable[Result]], Json],
    *,
    folder: Path,
    flags: Sequence[str],
    in_processes: bool = True,
) -> Json:
    """Run `work` on each element, distributed over the workers; return `finish` of all results.

    Instead of threads of this process, forked processes do the work, and begin while Beam is
    imported; `in_processes=False` leaves it to Beam's threads. A pipeline returns nothing, so the
    result passes through a file in `folder`.

    Few elements are distributed without Beam, and those that forks cannot do, one.

    The graph is small: `Reshuffle` and `CombineGlobally` instead of grouping and mapping would make
    it three times as large, which takes 0.3 s more to build and start.
    """
    key, result = str(folder), folder / ".result.partial"
    count = min(num_processes(flags), len(elements)) if in_processes else 1
    call = partial(_call, work)
    with processes.forked(count, call, elements, key=key):
        take = partial(_call, partial(processes.result, call, key=key))
        if not flags and len(elements) <= (FEW if in_processes else 1):
            outcome = _outcome(finish, [take(*item) for item in enumerate(elements)])
        else:
            options = _without_threads(flags) if in_processes else pipeline_options(flags)
            _run(elements, take, partial(_save_result, finish, str(result)), options=options)
            outcome = json.loads(result.read_text())
            result.unlink()
    if "problem" in outcome:
        raise DataError(outcome["problem"])
    return outcome


def _run(
    elements: Sequence[Element],
    work: Callable[[int, Element], Any],
    finish: Callable[[Iterable[tuple[int, Any]]], None],
    *,
    options: "PipelineOptions",
) -> None:
    import apache_beam as beam

    with _temp_folder(), beam.Pipeline(options=options) as pipeline:
        add_steps(pipeline, elements, work, finish)


def _without_threads(flags: Sequence[str]) -> "PipelineOptions":
    from apache_beam.options.pipeline_options import DirectOptions

    options = pipeline_options(flags)
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode == "multi_threading":
        direct.direct_running_mode, direct.direct_num_workers = "in_memory", 1
    return options


@contextlib.contextmanager
def _temp_folder() -> Iterator[None]:
    """Use a new folder for temporary files and remove it: the portable runner leaves some."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="beam-") as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before


def add_steps(
    pipeline: "beam.Pipeline",
    elements: Sequence[Element],
    work: Callable[[int, Element], Any],
    finish: Callable[[Iterable[tuple[int, Any]]], None],
) -> None:
    """Add the steps of `run_pipeline` to a pipeline; `work` gets an element's number and itself."""
    import apache_beam as beam

    def results(item: tuple[int, Iterable[Element]]) -> list[tuple[None, tuple[int, Any]]]:
        number, group = item
        return [(None, (number, work(number, element))) for element in group]

    numbered = list(enumerate(elements))
    _ = (
        pipeline
        | "Elements" >> beam.Create(numbered, reshuffle=False)
        | "SpreadOverWorkers" >> beam.GroupByKey()
        | "Work" >> beam.FlatMap(results)
        | "Collect" >> beam.GroupByKey()
        | "Finish" >> beam.Map(lambda item: finish(item[1]))
    )


def _call(work: Callable[..., Result], *arguments: Any) -> Result | DataError:
    """Return the result of `work`, or its DataError: Beam would wrap and retry it."""
    try:
        return work(*arguments)
    except DataError as error:
        return error


def _save_result(
    finish: Callable[[Iterable[Any]], Json], path: str, results: Iterable[tuple[int, Any]]
) -> None:
    ordered = [result for _, result in sorted(results, key=lambda pair: pair[0])]
    Path(path).write_text(json.dumps(_outcome(finish, ordered)))


def _outcome(finish: Callable[[Iterable[Any]], Json], results: Sequence[Any]) -> Json:
    """Return what `finish` returns, or the problem of the first element that has one."""
    problems = [{"problem": str(result)} for result in results if isinstance(result, DataError)]
    return problems[0] if problems else finish(results)
