"""hyperparameterTuningJobs: trials of a custom job with different parameters (`study.py`)."""

from functools import partial

from vertex_local import Json
from vertex_local.api import protos
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import driven_kind
from vertex_local.api.service import Service
from vertex_local.jobs import resource as jobs
from vertex_local.tuning import search
from vertex_local.tuning.record import plan_study
from vertex_local.tuning.study import Study

KIND = driven_kind("hyperparameterTuningJobs", folder="tuning", prefix="JOB_STATE_")
recover = partial(KIND.continue_unfinished, driver=Study)


def create(service: Service, call: Call) -> Json:
    """POST …/hyperparameterTuningJobs: start the study and return it as PENDING."""
    job = protos.parse("HyperparameterTuningJob", call.body)
    search.require_optuna(plan_study(job))
    jobs.require_persistent_resource(call.parent, job["trialJobSpec"])
    name = f"{call.parent}/{KIND.collection}/{service.store.next_id()}"
    record = {**KIND.new_record(name, job), "trials": []}
    service.store.insert(name, record)
    KIND.watch(service, name, partial(Study, service, name))
    return record


ROUTES = KIND.routes(create)
