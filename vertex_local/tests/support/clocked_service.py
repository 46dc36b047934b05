"""Service whose clock a test sets."""

from datetime import UTC, datetime

from vertex_local.api.database.store import Store
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.machine.clock import Clock
from vertex_local.schedules import resource as schedules
from vertex_local.schedules import scheduler

ARGS = {"project": "p", "location": "l"}
PARENT = "projects/p/locations/l"
STEP = ["sh", "-ec", "python3 -m kfp.dsl.executor_main"]
SPEC = {
    "pipelineInfo": {"name": "nightly"},
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.17.0",
    "root": {
        "dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}, "taskInfo": {"name": "a"}}}}
    },
    "components": {"comp-a": {"executorLabel": "exec-a"}},
    "deploymentSpec": {"executors": {"exec-a": {"container": {"image": "i", "command": STEP}}}},
}


class SetClock(Clock):
    """Clock that is set by hand."""

    def __init__(self, moment: str) -> None:
        super().__init__()
        self.set(moment)

    def set(self, moment: str) -> None:
        self._moment = datetime.fromisoformat(moment).replace(tzinfo=UTC)

    def now(self) -> datetime:
        return self._moment


class World:
    """Service whose clock is set by hand, and whose runs never end by themselves."""

    def __init__(self, root, launched: list) -> None:
        self.root = root
        self.launched = launched
        self.open("2026-11-20T12:00")

    def open(self, moment: str) -> None:
        store = Store(self.root / "vertex.db")
        self.service = Service(root=self.root, store=store, url="", clock=SetClock(moment))

    def create(self, **fields) -> str:
        job = {"pipelineSpec": SPEC, "runtimeConfig": {"gcsOutputDirectory": str(self.root / "r")}}
        body = {
            "displayName": "nightly",
            "cron": "0 3 * * *",
            "maxConcurrentRunCount": "1",
            "createPipelineJobRequest": {"parent": PARENT, "pipelineJob": job},
            **fields,
        }
        body = {name: value for name, value in body.items() if value is not None}
        self.id = self.call(schedules.create, body=body)["name"].rpartition("/")[2]

    def call(self, handler, *, body=None, **query):
        args = {**ARGS, "id": getattr(self, "id", "")}
        return handler(self.service, Call(args=args, query=query, body=body or {}))

    def get(self):
        return self.call(schedules.get)

    def at(self, moment: str) -> list[str]:
        """Run the scheduler; return the days and hours of the runs that it starts."""
        self.service.clock.set(moment)
        before = len(self.launched)
        scheduler.start_due(self.service)
        return [job["scheduledRunTime"][8:13] for job in self.launched[before:]]

    def end_runs(self) -> None:
        for run in self.runs():
            self.service.store.update(
                run["name"], lambda run: run.update(state="PIPELINE_STATE_SUCCEEDED")
            )

    def runs(self):
        return self.service.store.list_kind("pipelineJobs")

    def restart(self, moment: str) -> None:
        """Restart the service at `moment`; the runs have ended."""
        self.service.store.close()
        self.open(moment)
        self.end_runs()
        scheduler.apply_catch_up(self.service)
