"""Life cycle of custom jobs, tuning jobs and pipeline runs: from the request to their end."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from vertex_local import Json
from vertex_local.api import ends, operations
from vertex_local.api.fields import UNFINISHED
from vertex_local.api.pages import list_page
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.routes import Call, Route, routes_of
from vertex_local.api.service import Service
from vertex_local.errors import ApiError, failed_precondition, is_full_disk, rpc_status
from vertex_local.machine import lost_and_found, users
from vertex_local.machine.clock import now
from vertex_local.processes import group as processes
from vertex_local.processes.supervisor import INTERRUPTED

logger = logging.getLogger(__name__)

ORPHANS_TIMEOUT_SECONDS = 15.0
# https://cloud.google.com/vertex-ai/docs/pipelines/cancel-pipeline-runs
CANCELLED_AT_THE_END = "Cancelled after its tasks had succeeded; their results stay."


class RunGroup(Protocol):
    """Processes of a run: a group, or the trials of a tuning job."""

    def wait(self) -> Json:
        """Wait for the end; return the last `state` and a `message`."""

    def request_stop(self, grace_seconds: float) -> None:
        """Request the end, without waiting for it."""


Start = Callable[[], RunGroup]


@dataclass(frozen=True)
class Running:
    """Processes of a run, and the thread that waits for their end."""

    kind: "RunKind"
    group: RunGroup
    watcher: threading.Thread


def outcome_by(outcomes: Mapping[str, tuple[str, str]], group_state: Json) -> tuple[str, Json]:
    """Return the state and the error of a run; `outcomes` has both codes by its group's state."""
    state, code = outcomes[group_state["state"]]
    return state, rpc_status(code, group_state["message"]) if code else {}


@dataclass(frozen=True, kw_only=True)
class RunKind:
    """Kind of run: custom jobs, pipeline runs or tuning jobs.

    Attributes:
        collection: The collection, `customJobs`.
        folder: Folder below the service's root that has a folder for each run.
        prefix: Prefix of the states, `JOB_STATE_`.
        outcome: Returns the last state, without the prefix, and the error ({} for none) of a run,
            from its folder and the last state of its group.
        cancel_grace_seconds: Time for a cancelled run to end by itself.
        close_grace_seconds: Time for a run to end by itself when the service stops.
        outlives_service: Returns from a run's folder and the last state of its group whether the
            next service continues the run.
        follow_up: Returns the start of the processes that finish an ended run; None if it is
            finished.
        details: Returns further fields of an ended run, from its folder.
    """

    collection: str
    folder: str
    prefix: str
    outcome: Callable[[Path, Json], tuple[str, Json]]
    cancel_grace_seconds: float = 10.0
    close_grace_seconds: float = 5.0
    outlives_service: Callable[[Path, Json], bool] = lambda folder, state: False
    follow_up: Callable[[Service, str, Json], Start | None] = lambda service, name, state: None
    details: Callable[[Path], Json] = lambda folder: {}

    def routes(self, create: Any, get: Any = None, list_: Any = None) -> list[Route]:
        """Return the routes to create, list, get, delete and cancel; some have a default."""
        handlers = {
            "POST": create,
            "GET": list_ or self.list,
            "GET /<id>": get or self.get,
            "DELETE /<id>": self.delete,
            "POST /<id>:cancel": self.cancel,
        }
        return routes_of(self.collection, handlers)

    def folder_of(self, service: Service, name: str) -> Path:
        """Return the folder of a run, with its logs and the state of its processes."""
        return service.root / self.folder / ResourcePath.from_name(name).id

    def is_unfinished(self, run: Json) -> bool:
        """Return whether a run has not ended."""
        return run["state"] in UNFINISHED

    def new_record(self, name: str, body: Json) -> Json:
        """Return the record of a new run."""
        created = now()
        return {
            **body,
            "name": name,
            "state": f"{self.prefix}PENDING",
            "createTime": created,
            "updateTime": created,
        }

    def get(self, service: Service, call: Call) -> Json:
        """GET …/ID."""
        return service.store.get(call.name(self.collection))

    def list(self, service: Service, call: Call) -> Json:
        """GET …: list the runs of a project and location."""
        return list_page(service, call, self.collection)

    def cancel(self, service: Service, call: Call) -> Json:
        """POST …/ID:cancel; no effect on a run that is being cancelled or has ended."""
        self.request_cancel(service, service.store.get(call.name(self.collection)))
        return {}

    def request_cancel(self, service: Service, run: Json) -> None:
        """Request the end of a run, unless it is being cancelled or has ended."""
        if self.is_unfinished(run) and not self._is_cancelling(run):
            self.request_end(service, run["name"], grace_seconds=self.cancel_grace_seconds)

    def delete(self, service: Service, call: Call) -> Json:
        """DELETE …/ID: delete the run and its logs, but not its outputs."""
        self.remove(service, call.name(self.collection))
        return operations.deleted(service, call.name(self.collection))

    def remove(self, service: Service, name: str) -> None:
        """Delete a run that has ended, and its logs.

        Raises:
            ApiError: NOT_FOUND, or FAILED_PRECONDITION: it has not ended.
        """
        folder = self.folder_of(service, name)
        with lost_and_found.deletion(service.root, folder), service.store.atomic():
            run = service.store.get(name)
            if self.is_unfinished(run):
                raise failed_precondition(
                    f"{name} is in state {run['state']}; "
                    "cancel it or wait until it has ended, then delete it."
                )
            service.store.delete(name)

    def watch(
        self,
        service: Service,
        name: str,
        start: Start,
        *,
        on_end: Callable[[], None] = lambda: None,
        is_follow_up: bool = False,
    ) -> None:
        """Start a run's processes, and a thread that records their end.

        A run whose processes cannot be started has failed. `on_end` is called in both cases.
        """
        try:
            group = start()
        except (OSError, ValueError, ApiError) as error:
            on_end()
            if is_follow_up and is_full_disk(error):
                raise  # the caller retries
            state = {"state": "failed", "message": f"could not start: {error}"}
            ends.settle(service, name, partial(self.record_end, service, name, state))
            return
        watcher = threading.Thread(
            target=self._watch,
            args=(service, name, group, on_end, is_follow_up),
            name=name,
            daemon=True,
        )
        service.running[name] = Running(self, group, watcher)
        watcher.start()

    def record_end(self, service: Service, name: str, group_state: Json) -> None:
        """Store a run's last state and error; one that a user has cancelled does not succeed."""
        folder = self.folder_of(service, name)
        (state, error), details = self.outcome(folder, group_state), self.details(folder)
        ended = now()

        def change(run: Json) -> None:
            nonlocal state, error
            by_service = "error" in run  # it says that the service stopped
            if state == "SUCCEEDED" and self._is_cancelling(run) and not by_service:
                state, error = "CANCELLED", rpc_status("CANCELLED", CANCELLED_AT_THE_END)
            run.update(details, state=f"{self.prefix}{state}", endTime=ended, updateTime=ended)
            if state == "CANCELLED" and by_service:
                return
            run.pop("error", None)
            if error:
                run["error"] = error

        service.store.update(name, change)
        logger.info("%s ended: %s %s", name, state, error.get("message", ""))

    def continue_unfinished(
        self, service: Service, driver: Callable[[Service, str], RunGroup]
    ) -> None:
        """Continue the runs of a previous service, whose drivers keep their state in the record."""
        for run in service.store.unfinished(self.collection):
            self.watch(service, run["name"], partial(driver, service, run["name"]))
        self._clear_strays(service)

    def recover(self, service: Service) -> None:
        """Record the end of the unfinished runs of a previous service, and clear stray folders."""
        for run in service.store.unfinished(self.collection):
            state = _state_left_in(self.folder_of(service, run["name"]))
            ends.settle(service, run["name"], partial(self._end, service, run["name"], state))
        self._clear_strays(service)

    def _clear_strays(self, service: Service) -> None:
        known = {self.folder_of(service, name) for name in service.store.names(self.collection)}
        lost_and_found.clear(service.root, set((service.root / self.folder).glob("*")) - known)

    def close(self, service: Service) -> None:
        """Stop all runs of this kind and wait until their ends are recorded."""
        running = dict(service.running).items()
        names = [name for name, one in running if isinstance(one, Running) and one.kind is self]
        self.end(service, names, grace_seconds=self.close_grace_seconds, reason=INTERRUPTED)

    def end(
        self, service: Service, names: Iterable[str], *, grace_seconds: float, reason: str = ""
    ) -> None:
        """Cancel runs and wait until their ends are recorded; `reason`: unless a user cancels."""
        running = {name: service.running.get(name) for name in names}
        for name in running:
            self.request_end(service, name, grace_seconds=grace_seconds, reason=reason)
        for one in running.values():
            if isinstance(one, Running):
                one.watcher.join(grace_seconds + processes.STOP_MARGIN_SECONDS)

    def _is_cancelling(self, run: Json) -> bool:
        return bool(run["state"] == f"{self.prefix}CANCELLING")

    def request_end(
        self, service: Service, name: str, *, grace_seconds: float, reason: str = ""
    ) -> None:
        """Cancel a run without waiting for its end; `reason`: unless a user cancels it."""

        def change(run: Json) -> None:
            if not self.is_unfinished(run):
                return
            if reason and not self._is_cancelling(run):
                run["error"] = rpc_status("ABORTED", reason)
            run.update(state=f"{self.prefix}CANCELLING", updateTime=now())

        service.store.update(name, change)
        running = service.running.get(name)
        if running:
            running.group.request_stop(grace_seconds)

    def _watch(
        self,
        service: Service,
        name: str,
        group: RunGroup,
        on_end: Callable[[], None],
        is_follow_up: bool,
    ) -> None:
        try:
            run = service.store.update(name, self._set_running)
            if self._is_cancelling(run) and not is_follow_up:
                group.request_stop(self.cancel_grace_seconds)  # cancelled before it started
        except Exception:
            logger.exception("The start of %s cannot be recorded", name)
        state = _with_shortage(service, group.wait())
        on_end()
        record = partial(self._end, service, name, state)
        if not ends.is_recorded(name, record):
            ends.retry(service, name, record)
        running = service.running.get(name)
        if isinstance(running, Running) and running.group is group:  # not replaced by its follow-up
            service.running.pop(name)

    def _end(self, service: Service, name: str, group_state: Json) -> None:
        """Record a run's end, or start its follow-up, or leave it to the next service."""
        folder = self.folder_of(service, name)
        if service.ending.is_set() and self.outlives_service(folder, group_state):
            logger.info("%s is interrupted; the next service continues it", name)
        elif start := self.follow_up(service, name, group_state):
            user = users.join(service.root)  # a command that only lists runs must not end it
            self.watch(service, name, start, on_end=user.close, is_follow_up=True)
        else:
            self.record_end(service, name, group_state)

    def _set_running(self, run: Json) -> None:
        if run["state"] == f"{self.prefix}PENDING":
            started = now()
            run.update(state=f"{self.prefix}RUNNING", startTime=started, updateTime=started)


def driven_kind(collection: str, *, folder: str, prefix: str) -> RunKind:
    """Return a kind whose driver keeps its state in the record: the next service continues it."""
    outcomes = {
        "succeeded": ("SUCCEEDED", ""),
        "failed": ("FAILED", "FAILED_PRECONDITION"),
        "cancelled": ("CANCELLED", "CANCELLED"),
    }
    return RunKind(
        collection=collection,
        folder=folder,
        prefix=prefix,
        outcome=lambda _folder, state: outcome_by(outcomes, state),
        outlives_service=lambda _folder, state: bool(state["state"] == "interrupted"),
    )


def _with_shortage(service: Service, group_state: Json) -> Json:
    """Return the last state of a group; if it failed on a full disk, its message says so."""
    if group_state["state"] != "failed" or not (shortage := service.store.reserve.shortage()):
        return group_state
    return {**group_state, "message": f"{group_state['message']}\n{shortage}"}


def _state_left_in(folder: Path) -> Json:
    """Return the last state of a group whose service was killed; it ended before or with it."""
    if not processes.await_end(folder, timeout_seconds=ORPHANS_TIMEOUT_SECONDS):
        logger.warning("The processes of %s have not ended yet", folder)
    state: Json = {}
    try:
        state = processes.read_state(folder)
    except (OSError, ValueError) as error:
        logger.warning("The state in %s cannot be read: %s", folder, error)
    if state.get("state", "running") == "running" or state["message"] == INTERRUPTED:
        return {"state": "interrupted", "message": INTERRUPTED}
    return state
