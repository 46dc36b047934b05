"""Runner of one pipeline: `python -m vertex_local.pipelines.runner FOLDER --cache-dir DIR`.

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
import warnings
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from vertex_local import Json
from vertex_local.api.resource_names import ResourceName
from vertex_local.client import EMULATOR_VARIABLE
from vertex_local.machine.docker_engine import Engine
from vertex_local.pipelines import record as pipeline_record
from vertex_local.pipelines.run_state import PipelineRun, RunContext
from vertex_local.processes.warm import WarmClient

logger = logging.getLogger(__name__)

JOB_FILE = "job.json"


def run_pipeline(
    folder: Path,
    *,
    cache_dir: Path,
    service_url: str,
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
    try:
        with tempfile.TemporaryDirectory(prefix="steps-", ignore_cleanup_errors=True) as temp:
            context = RunContext(
                run=run,
                service_url=service_url,
                temp_dir=Path(temp),
                warm=warm,
                engine=engine,
            )
            is_success = _execute(job, context, cache_dir=cache_dir)
    except Exception as error:
        logger.exception("the pipeline cannot be run")
        run.fail(job["pipelineSpec"]["pipelineInfo"]["name"], f"{type(error).__name__}: {error}")
    run.journal_untriggered()
    state = _final_state(run, is_success)
    message = "" if state == "SUCCEEDED" else run.error_message()
    run.journal.write("pipeline_ended", state=state, error=message)
    return state


def _execute(job: Json, context: RunContext, *, cache_dir: Path) -> bool:
    """Run the specification with kfp.local's orchestrator; return whether all tasks succeeded."""
    from google.protobuf import json_format
    from kfp import local
    from kfp.local import status, utils
    from kfp.local.orchestrator import enhanced_dag_orchestrator
    from kfp.pipeline_spec import pipeline_spec_pb2

    from vertex_local.pipelines.gcpc.operator import Operator
    from vertex_local.pipelines.kfp_local import patches
    from vertex_local.pipelines.task_handler import TaskHandler

    run = context.run
    name = ResourceName.from_name(job["name"])
    root = job["runtimeConfig"]["gcsOutputDirectory"]
    runner = local.SubprocessRunner(use_venv=False)
    local.init(
        runner,
        pipeline_root=root,
        workspace_root=str(context.temp_dir / "workspace"),
        raise_on_error=True,
        enable_caching=True,
        cache_root=str(cache_dir),
    )
    operator = Operator(url=context.service_url, must_stop=run.must_stop, write_log=logger.info)
    patches.install(
        run,
        job=job,
        handler=partial(TaskHandler, context),
        is_being_written=partial(operator.writes_to, parent=name.parent),
    )
    spec = json_format.ParseDict(job["pipelineSpec"], pipeline_spec_pb2.PipelineSpec())
    if job.get("refreshesCache"):
        _enable_caching(spec)
    executors = spec.deployment_spec["executors"]
    run.start_exit_timeout()
    _, outcome = enhanced_dag_orchestrator.run_enhanced_dag(
        pipeline_resource_name=name.id,
        dag_component_spec=spec.root,
        executors={name: utils.struct_to_executor_spec(executors[name]) for name in executors},
        components=dict(spec.components.items()),
        dag_arguments=job["runtimeConfig"].get("parameterValues", {}),
        pipeline_root=root,
        runner=runner,
        unique_pipeline_id=name.id,
        fail_stack=[],
    )
    return bool(outcome == status.Status.SUCCESS)


def _enable_caching(spec: Any) -> None:
    """Enable the cache for all tasks, to replace cached outputs (`StepCache`)."""
    for component in (spec.root, *spec.components.values()):
        for task in component.dag.tasks.values():
            task.caching_options.enable_cache = True


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
    parser.add_argument("--engine", type=Engine.from_json, help="to run steps in containers")
    arguments = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    warnings.filterwarnings("ignore", message="Task .* have no effect in the current local runner")
    state = run_pipeline(
        arguments.folder,
        cache_dir=arguments.cache_dir,
        service_url=f"http://{os.environ[EMULATOR_VARIABLE]}",
        warm=WarmClient.inherited(),
        engine=arguments.engine,
    )
    sys.exit(0 if state == "SUCCEEDED" else 1)


if __name__ == "__main__":
    main()
