"""Runner of one pipeline: `python -m vertex_local.pipelines.runner FOLDER --cache-dir DIR …`.

FOLDER/job.json is the PipelineJob. The journal (`journal.py`) is FOLDER/events.jsonl, the log of
each task FOLDER/tasks/NAME.log, and the log of the run is the output of this process.
SIGTERM cancels the run: running tasks are stopped, exit tasks still run. If the journal says that
a previous runner was interrupted, only exit tasks run.
"""

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import FrameType

from vertex_local.api.resource_names import ResourcePath
from vertex_local.client import EMULATOR_VARIABLE
from vertex_local.machine.docker_engine import Engine
from vertex_local.pipelines import record as pipeline_record
from vertex_local.pipelines.executor import Executor
from vertex_local.pipelines.gcpc.operator import Operator
from vertex_local.pipelines.run_state import PipelineRun
from vertex_local.pipelines.step_cache import StepCache
from vertex_local.pipelines.tasks import TaskRunner
from vertex_local.processes.warm import WarmClient

logger = logging.getLogger(__name__)

JOB_FILE = "job.json"


def run_pipeline(
    folder: Path,
    *,
    cache_dir: Path,
    service_url: str,
    num_parallel: int,
    warm: WarmClient | None = None,
    engine: Engine | None = None,
) -> str:
    """Run the pipeline of a folder; return SUCCEEDED, FAILED or CANCELLED."""
    job = json.loads((folder / JOB_FILE).read_text())
    run = PipelineRun(job, folder=folder, leaves=pipeline_record.leaves(job["pipelineSpec"]))
    _cancel_on_signals(run)
    if not run.is_resumed:
        run.journal.write("pipeline_started")
    is_success = False
    parent = ResourcePath.from_name(job["name"]).parent
    operator = Operator(url=service_url, must_stop=lambda: run.is_stopping, write_log=logger.info)
    is_being_written = partial(operator.writes_to, parent=parent)
    try:
        with tempfile.TemporaryDirectory(prefix="steps-", ignore_cleanup_errors=True) as temp:
            task_runner = TaskRunner(
                run=run,
                job=job,
                run_values=pipeline_record.run_values(job),
                cache=StepCache(cache_dir, job=job, is_being_written=is_being_written),
                service_url=service_url,
                temp_dir=Path(temp),
                warm=warm,
                engine=engine,
            )
            executor = Executor(
                run=run, job=job, task_runner=task_runner, num_parallel=num_parallel
            )
            is_success = executor.execute()
    except Exception as error:
        logger.exception("the pipeline cannot be run")
        run.fail(job["pipelineSpec"]["pipelineInfo"]["name"], f"{type(error).__name__}: {error}")
    run.journal_untriggered()
    state = _final_state(run, is_success)
    message = "" if state == "SUCCEEDED" else run.error_message()
    run.journal.write("pipeline_ended", state=state, error=message)
    return state


def _final_state(run: PipelineRun, is_success: bool) -> str:
    if is_success and not run.failures:
        return "SUCCEEDED"  # if a user cancelled it after that, the service says CANCELLED
    return "CANCELLED" if run.is_cancelled else "FAILED"


def _cancel_on_signals(run: PipelineRun) -> None:
    def cancel(number: int, frame: FrameType | None) -> None:
        run.cancel()

    signal.signal(signal.SIGTERM, cancel)
    signal.signal(signal.SIGINT, cancel)


def main() -> None:
    """Run the pipeline of the folder on the command line; exit with 0 on success."""
    parser = argparse.ArgumentParser(prog="python -m vertex_local.pipelines.runner")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache-dir", type=Path, required=True)
    parser.add_argument("--parallel", type=int, required=True, help="tasks at a time")
    parser.add_argument("--engine", type=Engine.from_json, help="to run steps in containers")
    arguments = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    state = run_pipeline(
        arguments.folder,
        cache_dir=arguments.cache_dir,
        service_url=f"http://{os.environ[EMULATOR_VARIABLE]}",
        num_parallel=arguments.parallel,
        warm=WarmClient.inherited(),
        engine=arguments.engine,
    )
    sys.exit(0 if state == "SUCCEEDED" else 1)


if __name__ == "__main__":
    main()
