"""Execution of a function for each element, and of one for all results, here or by Beam."""

import contextlib
import json
import logging
import shutil
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
LOCAL_FLAGS = {"--runner", "--direct_num_workers", "--direct_running_mode"}  # not for Beam itself

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
    """Return how many processes of this machine do the work; 0 if workers of Beam do.

    Without `--direct_num_workers` it is the number of cores.
    """
    values = dict(flag.split("=", 1) for flag in flags if "=" in flag)
    is_local = len(values) == len(flags) and values.keys() <= LOCAL_FLAGS
    is_direct = values.get("--runner", "") in DIRECT_RUNNERS
    if not is_local or not is_direct or "multi_processing" in values.values():
        return 0
    return int(values.get("--direct_num_workers", 0)) or machine_cores()


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

    Forked processes do the work on one machine, or this process if they cannot. Beam distributes it
    where its flags say more than the number of processes; a pipeline returns nothing, so the result
    passes through a file in `folder`.

    The graph is small: `Reshuffle` and `CombineGlobally` instead of grouping and mapping would make
    it three times as large, which takes 0.3 s more to build and start.
    """
    call, count = partial(_call, work), num_processes(flags)
    if count and (in_processes or not flags):
        count = min(count, len(elements)) if in_processes else 1
        outcome = _outcome(finish, processes.results(call, elements, count=count))
    else:
        result = folder / ".result.partial"
        _run(elements, call, partial(_save_result, finish, str(result)), flags=flags)
        outcome = json.loads(result.read_text())
        result.unlink()
    if "problem" in outcome:
        raise DataError(outcome["problem"])
    return outcome


@raw_errors()
def _run(
    elements: Sequence[Element],
    work: Callable[[Element], Any],
    finish: Callable[[Iterable[tuple[int, Any]]], None],
    *,
    flags: Sequence[str],
) -> None:
    import apache_beam as beam

    with _temp_folder(), beam.Pipeline(options=pipeline_options(flags)) as pipeline:
        # For transforms in other languages; a kill of this process would leave it.
        shutil.rmtree(pipeline.local_tempdir)
        add_steps(pipeline, elements, work, finish)


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
    work: Callable[[Element], Any],
    finish: Callable[[Iterable[tuple[int, Any]]], None],
) -> None:
    """Add the steps of `run_pipeline` to a pipeline; `finish` gets numbers with the results."""
    import apache_beam as beam

    def results(item: tuple[int, Iterable[Element]]) -> list[tuple[None, tuple[int, Any]]]:
        number, group = item
        return [(None, (number, work(element))) for element in group]

    numbered = list(enumerate(elements))
    _ = (
        pipeline
        | "Elements" >> beam.Create(numbered, reshuffle=False)
        | "SpreadOverWorkers" >> beam.GroupByKey()
        | "Work" >> beam.FlatMap(results)
        | "Collect" >> beam.GroupByKey()
        | "Finish" >> beam.Map(lambda item: finish(item[1]))
    )


def _call(work: Callable[[Element], Result], element: Element) -> Result | DataError:
    """Return the result of `work`, or its DataError: Beam would wrap and retry it."""
    try:
        return work(element)
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
