"""Trials of a running tuning job: each is a custom job of this service."""

import logging
import threading
import time

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.service import Service
from vertex_local.errors import CODES, is_full_disk
from vertex_local.jobs import resource as jobs
from vertex_local.machine.clock import now
from vertex_local.processes.supervisor import INTERRUPTED
from vertex_local.tuning import search
from vertex_local.tuning.record import (
    ACTIVE,
    StudyPlan,
    add_measurements,
    end_trial,
    is_below_median,
    outcome,
    plan_study,
    read_measurements,
    trial_job_spec,
)

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
ABORTED = CODES["ABORTED"][1]  # the code of a job that ended with its service
CANCELLED = "The tuning job was cancelled."
# In the folder of a trial's custom job.
METRIC_FILE = "hypertune/output.metrics"


class Study:
    """Driver of a tuning job, with the interface of a group of processes (`run_lifecycle.py`).

    All its state is in the record, so that the next service continues where this one was killed:
    a trial whose custom job was interrupted gets another one, with the same id and parameters.
    """

    def __init__(self, service: Service, name: str) -> None:
        self._service = service
        self._name = name
        self._plan: StudyPlan = plan_study(service.store.get(name))
        self._stop = threading.Event()
        self._grace_seconds = 0.0
        self._failure = ""

    def request_stop(self, grace_seconds: float) -> None:
        """Request the end of all trials, without waiting for it."""
        self._grace_seconds = grace_seconds
        self._stop.set()

    def wait(self) -> Json:
        """Run the trials to their end; return the last state and its message."""
        while True:
            try:
                state = self._advance()
                if state and state["state"] != "interrupted":
                    self._end_trials(state["message"])
                if state:
                    return state
            except Exception as error:
                if is_full_disk(error):
                    logger.warning("%s waits for space on the disk: %s", self._name, error)
                elif self._failure:  # the trials could not be ended
                    return {"state": "failed", "message": self._failure}
                else:
                    logger.exception("%s cannot continue", self._name)
                    self._failure = f"The service failed: {error}"
            time.sleep(POLL_SECONDS)

    def _advance(self) -> Json | None:
        """Follow the trials and start new ones; return the last state once the job has ended."""
        if self._failure:
            return {"state": "failed", "message": self._failure}
        if self._stop.is_set():
            return {"state": "cancelled", "message": CANCELLED}
        if self._service.ending.is_set():
            return {"state": "interrupted", "message": INTERRUPTED}
        for trial in self._trials():
            if trial["state"] in ACTIVE:
                self._follow(trial)
        is_exhausted = False
        while not is_exhausted and self._may_start():
            is_exhausted = not self._start_next()
        return outcome(self._trials(), self._plan, is_exhausted=is_exhausted)

    def _trials(self) -> list[Json]:
        trials: list[Json] = self._service.store.get(self._name)["trials"]
        return trials

    def _may_start(self) -> bool:
        trials = self._trials()
        num_active = sum(trial["state"] in ACTIVE for trial in trials)
        has_free_slot = num_active < self._plan.num_parallel and len(trials) < self._plan.num_trials
        return has_free_slot and not outcome(trials, self._plan, is_exhausted=False)

    def _start_next(self) -> bool:
        """Start the next trial; return False if there is none."""
        trials = self._trials()
        parameters = search.suggest(self._plan, trials, seed=self._name)
        if parameters is None:
            return False
        trial = {
            "id": str(len(trials) + 1),
            "state": "ACTIVE",
            "parameters": [{"parameterId": key, "value": parameters[key]} for key in parameters],
            "startTime": now(),
        }
        self._launch(trial)
        return True

    def _launch(self, trial: Json) -> None:
        """Start a trial's custom job; one transaction stores it and the trial."""
        service, job = self._service, self._service.store.get(self._name)
        parameters = {one["parameterId"]: one["value"] for one in trial["parameters"]}
        body = {
            "displayName": f"{job['displayName']}-{trial['id']}",
            "jobSpec": trial_job_spec(job, trial["id"], parameters),
            "labels": job.get("labels", {}),
        }
        with service.store.atomic():
            custom_job = jobs.insert(service, ResourcePath.from_name(self._name).parent, body)
            self._put({**trial, "customJob": custom_job["name"]})
        metric_file = jobs.KIND.folder_of(service, custom_job["name"]) / METRIC_FILE
        variables = {"CLOUD_ML_TRIAL_ID": trial["id"], "CLOUD_ML_HP_METRIC_FILE": str(metric_file)}
        jobs.launch(service, custom_job, variables)

    def _follow(self, trial: Json) -> None:
        service, job_name = self._service, trial["customJob"]
        custom_job = service.store.find(job_name)
        self._read_reports(trial)
        if custom_job and jobs.KIND.is_unfinished(custom_job):
            may_stop = self._plan.stops_early and trial["state"] == "ACTIVE"
            if may_stop and is_below_median(trial, self._trials(), self._plan):
                logger.info("%s: trial %s is stopped early", self._name, trial["id"])
                self._put({**trial, "state": "STOPPING"})
                grace_seconds = jobs.KIND.cancel_grace_seconds
                jobs.KIND.request_end(service, job_name, grace_seconds=grace_seconds)
        elif custom_job and custom_job.get("error", {}).get("code") == ABORTED:
            if not service.ending.is_set():
                self._launch(trial)
        else:
            is_stopped = trial["state"] == "STOPPING"  # its job was cancelled by this service
            self._end_trial(trial, "" if is_stopped else _problem(custom_job))

    def _read_reports(self, trial: Json) -> None:
        path = jobs.KIND.folder_of(self._service, trial["customJob"]) / METRIC_FILE
        try:
            text = path.read_text(errors="replace")
        except FileNotFoundError:
            return
        new = read_measurements(text, self._plan.metric, started=trial["startTime"])
        old = trial.get("measurements", [])
        if new and (not old or new[-1]["elapsedDuration"] != old[-1]["elapsedDuration"]):
            add_measurements(trial, new)
            self._put(trial)

    def _end_trial(self, trial: Json, problem: str) -> None:
        end_trial(trial, self._plan, problem=problem, ended=now())
        self._put(trial)

    def _end_trials(self, problem: str) -> None:
        active = [trial for trial in self._trials() if trial["state"] in ACTIVE]
        names = [trial["customJob"] for trial in active]
        jobs.KIND.end(self._service, names, grace_seconds=self._grace_seconds)
        for trial in active:
            self._end_trial(trial, problem)

    def _put(self, trial: Json) -> None:
        def change(job: Json) -> None:
            index = int(trial["id"]) - 1
            job["trials"][index : index + 1] = [trial]
            job["updateTime"] = now()

        self._service.store.update(self._name, change)


def _problem(custom_job: Json | None) -> str:
    """Return why a trial's job that has ended did not succeed, or ""."""
    if custom_job is None:
        return "Its custom job was deleted."
    if custom_job["state"] == "JOB_STATE_SUCCEEDED":
        return ""
    message: str = custom_job.get("error", {}).get("message", "no message")
    return f"{custom_job['name']} is {custom_job['state']}: {message}"
