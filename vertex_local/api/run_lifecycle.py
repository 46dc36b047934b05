"""What custom jobs and pipeline runs have in common: each lives as a group of processes."""

import logging
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vertex_local.api import operations
from vertex_local.api.query.pages import list_page
from vertex_local.api.routes import Call, Route
from vertex_local.api.service import Service
from vertex_local.errors import RPC_CODES, failed_precondition
from vertex_local.json_types import Json
from vertex_local.machine.clock import now
from vertex_local.processes import group as processes
from vertex_local.processes.supervisor import INTERRUPTED

logger = logging.getLogger(__name__)

OUTPUT_ONLY_FIELDS = {
    "name",
    "state",
    "createTime",
    "startTime",
    "endTime",
    "updateTime",
    "error",
    "jobDetail",
    "webAccessUris",
}
ORPHANS_TIMEOUT_SECONDS = 15.0
Start = Callable[[], processes.Group]


@dataclass(frozen=True)
class Running:
    """The processes of a run, and the thread that records their end."""

    kind: "RunKind"
    group: processes.Group
    watcher: threading.Thread


@dataclass(frozen=True, kw_only=True)
class RunKind:
    """A kind of run, and its life from the record in the store to the end of its processes.

    Attributes:
        collection: What Vertex AI calls it: `customJobs`.
        folder: Where below the service's root each has a folder of its own.
        prefix: What its states begin with: `JOB_STATE_`.
        outcome: The last state, without the prefix, and the error ({} if there is none), from a
            run's folder and the last state of its group.
        cancel_grace_seconds: How long a cancelled run may take to end by itself.
        close_grace_seconds: The same when the service ends.
        outlives_service: Whether the next service is to do what is left of a run, by its folder.
        follow_up: Starts the processes that do what is left of a run; None if nothing is left.
    """

    collection: str
    folder: str
    prefix: str
    outcome: Callable[[Path, Json], tuple[str, Json]]
    cancel_grace_seconds: float
    close_grace_seconds: float
    outlives_service: Callable[[Path], bool] = lambda folder: False
    follow_up: Callable[[Service, str, Json], Start | None] = lambda service, name, state: None

    def routes(self, create: Any, get: Any) -> list[Route]:
        """Create, list, get, delete and cancel."""
        collection = f"projects/<project>/locations/<location>/{self.collection}"
        return [
            Route("POST", collection, create),
            Route("GET", collection, self.list),
            Route("GET", f"{collection}/<id>", get),
            Route("DELETE", f"{collection}/<id>", self.delete),
            Route("POST", f"{collection}/<id>:cancel", self.cancel),
        ]

    def name(self, call: Call) -> str:
        """The resource name that a request is about."""
        return f"{call.parent}/{self.collection}/{call.args['id']}"

    def folder_of(self, service: Service, name: str) -> Path:
        """The folder of a run: its logs, and the state of its processes."""
        return service.root / self.folder / name.rpartition("/")[2]

    def is_unfinished(self, run: Json) -> bool:
        """Whether the run has not reached its last state."""
        states = ("PENDING", "RUNNING", "CANCELLING")
        return run["state"] in {f"{self.prefix}{state}" for state in states}

    def new_record(self, name: str, body: Json) -> Json:
        """What the store holds of a run that is about to start."""
        created = now()
        return {
            **{field: value for field, value in body.items() if field not in OUTPUT_ONLY_FIELDS},
            "name": name,
            "state": f"{self.prefix}PENDING",
            "createTime": created,
            "updateTime": created,
        }

    def list(self, service: Service, call: Call) -> Json:
        """GET …: the runs of a project and location."""
        return list_page(service, call, f"{call.parent}/{self.collection}")

    def cancel(self, service: Service, call: Call) -> Json:
        """POST …/ID:cancel; a run that is ending or has ended stays as it is."""
        run = service.store.get(self.name(call))
        if self.is_unfinished(run) and run["state"] != f"{self.prefix}CANCELLING":
            self._cancel(service, run["name"], grace_seconds=self.cancel_grace_seconds)
        return {}

    def delete(self, service: Service, call: Call) -> Json:
        """DELETE …/ID removes the run and its logs, never what it wrote elsewhere."""
        name = self.name(call)
        with service.store.atomic():
            run = service.store.get(name)
            if self.is_unfinished(run):
                raise failed_precondition(
                    f"{name} is in state {run['state']}; "
                    "cancel it, or wait for its end, to delete it."
                )
            service.store.delete(name)
        shutil.rmtree(self.folder_of(service, name), ignore_errors=True)
        return operations.finished(
            service, name, metadata_type="DeleteOperationMetadata", response_type="", response={}
        )

    def watch(
        self,
        service: Service,
        name: str,
        start: Start,
        *,
        on_end: Callable[[], None] = lambda: None,
        is_follow_up: bool = False,
    ) -> None:
        """Starts a run's processes, and a thread that records their end.

        A run whose processes cannot be started has failed. `on_end` is called in either case.
        """
        try:
            group = start()
        except (OSError, ValueError) as error:
            on_end()
            self.record_end(
                service, name, {"state": "failed", "message": f"could not start: {error}"}
            )
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
        """Writes a run's last state and error into the store."""
        state, error = self.outcome(self.folder_of(service, name), group_state)
        ended = now()

        def change(run: Json) -> None:
            run.update(state=f"{self.prefix}{state}", endTime=ended, updateTime=ended)
            if state == "CANCELLED" and "error" in run:
                return  # it says who cancelled the run, if not a user
            run.pop("error", None)
            if error:
                run["error"] = error

        service.store.update(name, change)
        logger.info("%s ended: %s %s", name, state, error.get("message", ""))

    def recover(self, service: Service) -> None:
        """Settles what an earlier service left unfinished; its processes ended with it."""
        runs = service.store.list_kind(self.collection)
        for run in runs:
            if self.is_unfinished(run):
                self._recover(service, run["name"])
        known = {self.folder_of(service, run["name"]) for run in runs}
        for folder in (service.root / self.folder).glob("*"):
            if folder not in known:  # a deletion was interrupted
                shutil.rmtree(folder, ignore_errors=True)

    def _recover(self, service: Service, name: str) -> None:
        try:
            self._end(service, name, _state_left_in(self.folder_of(service, name)))
        except Exception:  # the others are settled all the same
            logger.exception("%s cannot be settled", name)

    def close(self, service: Service) -> None:
        """Interrupts what runs and waits until its end is recorded."""
        names = [name for name, one in dict(service.running).items() if self._is_ours(one)]
        self.end(service, names, grace_seconds=self.close_grace_seconds, reason=INTERRUPTED)

    def end(
        self, service: Service, names: Iterable[str], *, grace_seconds: float, reason: str = ""
    ) -> None:
        """Cancels runs and waits until their ends are recorded; `reason` unless a user asked."""
        running = {name: service.running.get(name) for name in names}
        for name in running:
            self._cancel(service, name, grace_seconds=grace_seconds, reason=reason)
        for one in running.values():
            if isinstance(one, Running):
                one.watcher.join(grace_seconds + processes.STOP_MARGIN_SECONDS)

    def _is_ours(self, running: object) -> bool:
        return isinstance(running, Running) and running.kind is self

    def _cancel(
        self, service: Service, name: str, *, grace_seconds: float, reason: str = ""
    ) -> None:
        def change(run: Json) -> None:
            if not self.is_unfinished(run):
                return
            if reason and run["state"] != f"{self.prefix}CANCELLING":
                run["error"] = {"code": RPC_CODES["ABORTED"], "message": reason}
            run.update(state=f"{self.prefix}CANCELLING", updateTime=now())

        service.store.update(name, change)
        running = service.running.get(name)
        if running:
            running.group.request_stop(grace_seconds)

    def _watch(
        self,
        service: Service,
        name: str,
        group: processes.Group,
        on_end: Callable[[], None],
        is_follow_up: bool,
    ) -> None:
        try:
            run = service.store.update(name, self._set_running)
            if run["state"] == f"{self.prefix}CANCELLING" and not is_follow_up:
                group.request_stop(self.cancel_grace_seconds)  # asked before there was a group
        except Exception:
            logger.exception("The start of %s cannot be recorded", name)
        state = group.wait()
        on_end()
        try:
            self._end(service, name, state)
        except Exception:
            logger.exception("The end of %s cannot be recorded: %s", name, state)
        running = service.running.get(name)
        if isinstance(running, Running) and running.group is group:  # no follow-up was started
            service.running.pop(name)

    def _end(self, service: Service, name: str, group_state: Json) -> None:
        """Records a run's end, unless something is left to do: then that is started."""
        if service.ending.is_set() and self.outlives_service(self.folder_of(service, name)):
            logger.info("%s is interrupted; the next service continues it", name)
        elif start := self.follow_up(service, name, group_state):
            self.watch(service, name, start, is_follow_up=True)
        else:
            self.record_end(service, name, group_state)

    def _set_running(self, run: Json) -> None:
        if run["state"] == f"{self.prefix}PENDING":
            started = now()
            run.update(state=f"{self.prefix}RUNNING", startTime=started, updateTime=started)


def _state_left_in(folder: Path) -> Json:
    """How a group ended whose service is gone: by itself just before, or with it."""
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
