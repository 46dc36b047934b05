"""Outputs that some tasks will have, foreseen without running them."""

import datetime
import logging
from collections.abc import Callable

from components.model_version.champion import champion_of, find_champion, find_known
from components.model_version.decisions import stop_of
from components.model_version.registry import find_model, list_versions
from components.shared.vertex.api import VertexApi
from components.start.step import start_run
from components.start.trigger import TRAIN
from pipelines.plan.earlier_tasks import EarlierTasks
from pipelines.plan.forecast import has_inputs
from trainer import Json
from vertex_local.rules.values import TaskValues

logger = logging.getLogger(__name__)

Foresee = Callable[[TaskValues], Json | None]
PASSED = "passed"
START_INPUTS = ("model_name", "workload", "data_dir", "trust_files", "prepare", "trigger")


def without_registry() -> dict[str, Foresee]:
    """Return what can be foreseen without the API: a run without a trigger trains."""

    def start(inputs: TaskValues) -> Json | None:
        has_trigger = inputs.parameters["trigger"] != "{}"
        return None if has_trigger else {"verdict": TRAIN, "comparison": ""}

    def plan_training(inputs: TaskValues) -> Json | None:
        return {"verdict": TRAIN} if inputs.parameters["comparison"] == "" else None

    return {"start": start, "plan-training": plan_training}


def foreseen(api: VertexApi, *, run: str, earlier: EarlierTasks) -> dict[str, Foresee]:
    """Return the functions that foresee outputs, by the display names of the tasks."""
    unread = without_registry()

    def start(inputs: TaskValues) -> Json | None:
        """Look at the registry and at the raw data, as the task will."""
        values = {name: inputs.parameters[name] for name in START_INPUTS}
        champion = find_champion(api, values["model_name"])
        try:
            return start_run(
                api,
                champion=champion,
                run=run,
                schedule_time="",
                create_time=datetime.datetime.now(datetime.UTC).isoformat(),
                **values,
            )._asdict()
        except OSError as error:  # such as no right to read a bucket, which the run has
            logger.warning("the plan does not know whether the data has changed: %s", error)
            return unread["start"](inputs)

    def evaluate(inputs: TaskValues) -> Json | None:
        """Return the verdict of an earlier run on the same model, if it still holds."""
        if inputs.unknown:
            return None
        before = next((t for t in earlier.of("evaluate") if has_inputs(t, inputs)), None)
        if before is None:
            return None
        outputs = before.outputs.parameters
        model = find_model(api, str(inputs.parameters["model_name"]))
        versions = list_versions(api, model) if model else []
        champion, digest = champion_of(versions).version, outputs["digest"]
        is_served = outputs["verdict"] == PASSED and not outputs["stop"]
        known = find_known(versions, digest) if is_served else ""
        is_stale = outputs["champion_version"] != champion or stop_of(versions, digest)
        if is_stale and not (known and known == champion):
            return None
        return {**outputs, "state": "", "known_version": known} if known else outputs

    return {**unread, "start": start, "evaluate": evaluate}
