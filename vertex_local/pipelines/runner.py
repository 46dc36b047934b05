"""Runs one pipeline: `python -m vertex_local.pipelines.runner FOLDER --cache-dir DIR`.

FOLDER/job.json holds the PipelineJob. FOLDER/events.jsonl receives the journal (`journal.py`),
FOLDER/tasks/NAME.log what each task says; this process's own output is the run's log.
SIGTERM cancels the run: what runs is ended, exit tasks still run. Where the journal says that the
run was interrupted, this runs its exit tasks only.
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

from vertex_local.api.resource_names import ResourceName
from vertex_local.json_types import Json
from vertex_local.machine.docker_engine import Engine
from vertex_local.pipelines import placeholders
from vertex_local.pipelines import spec as pipeline_spec
from vertex_local.pipelines.run_state import PipelineRun
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
    """Runs the pipeline of a folder to its end.

    Returns:
        SUCCEEDED, FAILED or CANCELLED.
    """
    job = json.loads((folder / JOB_FILE).read_text())
    run = PipelineRun(job, folder=folder, leaves=pipeline_spec.leaves(job["pipelineSpec"]))
    _cancel_on_signals(run)
    if not run.is_finishing:
        run.events.write("pipeline_started")
    is_success = False
    try:
        with tempfile.TemporaryDirectory(prefix="steps-", ignore_cleanup_errors=True) as temp:
            is_success = _execute(
                job,
                run,
                cache_dir=cache_dir,
                temp_dir=Path(temp),
                service_url=service_url,
                warm=warm,
                engine=engine,
            )
    except Exception as error:
        logger.exception("the pipeline cannot be run")
        run.fail(job["pipelineSpec"]["pipelineInfo"]["name"], f"{type(error).__name__}: {error}")
    run.journal_untriggered()
    state = _final_state(run, is_success)
    message = "" if state == "SUCCEEDED" else run.error_message()
    run.events.write("pipeline_ended", state=state, error=message)
    return state


def _execute(
    job: Json,
    run: PipelineRun,
    *,
    cache_dir: Path,
    temp_dir: Path,
    service_url: str,
    warm: WarmClient | None,
    engine: Engine | None,
) -> bool:
    """Hands the specification to kfp.local's orchestrator; True if every task succeeded."""
    from google.protobuf import json_format
    from kfp import local
    from kfp.local import status, utils
    from kfp.local.orchestrator import enhanced_dag_orchestrator
    from kfp.pipeline_spec import pipeline_spec_pb2

    from vertex_local.pipelines.gcpc.operator import Operator
    from vertex_local.pipelines.kfp_local import hooks as kfp_hooks
    from vertex_local.pipelines.task_handler import handler_for

    name = ResourceName.from_name(job["name"])
    root = job["runtimeConfig"]["gcsOutputDirectory"]
    runner = local.SubprocessRunner(use_venv=False)
    local.init(
        runner,
        pipeline_root=root,
        workspace_root=str(temp_dir / "workspace"),
        raise_on_error=True,
        enable_caching=True,
        cache_root=str(cache_dir),
    )
    operator = Operator(url=service_url, must_stop=run.must_stop, say=logger.info)
    kfp_hooks.install(
        run,
        run_placeholders=placeholders.of_job(job),
        handler=handler_for(
            run, service_url=service_url, temp_dir=temp_dir, warm=warm, engine=engine
        ),
        is_written=partial(operator.writes_to, parent=name.parent),
    )
    spec = json_format.ParseDict(job["pipelineSpec"], pipeline_spec_pb2.PipelineSpec())
    executors = spec.deployment_spec["executors"]
    run.limit_exit_tasks()
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


def _final_state(run: PipelineRun, is_success: bool) -> str:
    if is_success and not run.failures:
        return "SUCCEEDED"  # also if a cancel came too late
    return "CANCELLED" if run.is_cancelled else "FAILED"


def _cancel_on_signals(run: PipelineRun) -> None:
    def cancel(number: int, frame: FrameType | None) -> None:
        run.cancel()

    signal.signal(signal.SIGTERM, cancel)
    signal.signal(signal.SIGINT, cancel)


def main() -> None:
    """Runs the pipeline of the folder named on the command line; exits with 0 on success."""
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
        service_url=f"http://{os.environ['VERTEX_EMULATOR_HOST']}",
        warm=WarmClient.inherited(),
        engine=arguments.engine,
    )
    sys.exit(0 if state == "SUCCEEDED" else 1)


if __name__ == "__main__":
    main()
