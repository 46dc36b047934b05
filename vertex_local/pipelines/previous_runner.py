"""Tasks in the journal of a run whose previous runner was interrupted.

The next runner of the run starts only exit tasks; it takes the outputs of tasks that have
succeeded from the journal.
"""

from collections import Counter

from vertex_local import Json
from vertex_local.pipelines import journal
from vertex_local.pipelines.journal import INTERRUPTION

SUCCESS_STATES = ("SUCCEEDED", "SKIPPED")


class PreviousRunner:
    """Tasks of the run before this runner started; empty in a run's first runner.

    `reason` is the first interruption's, `failures` has the names and errors of the failed
    tasks without exit tasks, `keys` has the leaves with an entry in the journal.
    """

    def __init__(self, events: list[Json], *, exit_keys: set[str]) -> None:
        interruptions = [event for event in events if event["event"] == INTERRUPTION]
        if not interruptions:
            events = []
        # Later interruptions hit runners that were started for the exit tasks.
        first = interruptions[0] if interruptions else {"reason": "", "state": ""}
        self.reason: str = first["reason"]
        self.is_cancelled = first["state"] == "CANCELLED"
        tasks = {event["id"]: event for event in events if "unique_name" in event}
        self.keys = {task["key"] for task in tasks.values()}
        self.num_by_name = Counter(task["name"] for task in tasks.values())
        self.failures: list[tuple[str, str]] = []
        self._successes: dict[tuple[str, str], Json] = {}
        self._scopes = {event["scope"] for event in events if event["event"] == "task_started"}
        for end in events:
            task = tasks.get(end["id"]) if end["event"] == "task_ended" else None
            if task and end["state"] in SUCCESS_STATES:
                self._successes[task["key"], task["scope"]] = end
            elif task and end["state"] == "FAILED" and task["key"] not in exit_keys:
                self.failures.append(journal.failure(task, end["inputs"], end["error"]))

    def has_started(self, scope: str) -> bool:
        """Return whether a task in the graph of a scope, or in a graph within it, had started."""
        return any(f"{started}/".startswith(f"{scope}/") for started in self._scopes)

    def success(self, key: str, scope: str) -> Json | None:
        """Return the `task_ended` event of a task that has succeeded, else None."""
        return self._successes.get((key, scope))
