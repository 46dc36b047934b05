"""The tasks that a run's earlier runner, which was interrupted, has journaled.

The next runner of the run continues with them: it starts no task but exit tasks, and takes the
outputs of tasks that have succeeded from the journal.
"""

from collections import Counter

from vertex_local.json_types import Json

INTERRUPTED_EVENT = "pipeline_interrupted"
SUCCESSES = ("SUCCEEDED", "SKIPPED")
Place = tuple[str, str]  # `Leaf.key`, and the iterations of loops that the task is in


class Earlier:
    """What the journal says of the tasks before its last `pipeline_interrupted`.

    Attributes:
        reason: Why the run was interrupted; empty if this is the run's first runner.
        is_cancelled: Whether it had been cancelled before that.
        failures: Names and errors of the tasks that had failed, but for exit tasks.
        keys: The tasks that have an entry in the journal, by `Leaf.key`.
        num_by_name: The number of entries by name.
    """

    def __init__(self, journal: list[Json], *, exit_keys: set[str]) -> None:
        interruptions = [one for one in journal if one["event"] == INTERRUPTED_EVENT]
        if not interruptions:
            journal = []
        # Later interruptions are those of runners that were to run exit tasks.
        first = interruptions[0] if interruptions else {"reason": "", "state": ""}
        self.reason: str = first["reason"]
        self.is_cancelled = first["state"] == "CANCELLED"
        named = {one["id"]: one for one in journal if "unique_name" in one}
        self.keys = {one["key"] for one in named.values()}
        self.num_by_name = Counter(one["name"] for one in named.values())
        ended = [one for one in journal if one["event"] == "task_ended"]
        self.failures = [
            (named[one["id"]]["name"], one["error"])
            for one in ended
            if one["state"] == "FAILED" and named[one["id"]]["key"] not in exit_keys
        ]
        self._successes = {
            _place(named[one["id"]]): one for one in ended if one["state"] in SUCCESSES
        }
        self._started = {_place(one) for one in journal if one["event"] == "task_started"}
        self._met: set[Place] = set()

    @property
    def num_tasks(self) -> int:
        """The number of entries."""
        return self.num_by_name.total()

    @property
    def num_met(self) -> int:
        """The number of tasks that had started of those that `success` was asked for."""
        return len(self._met)

    def success(self, key: str, scope: str) -> Json | None:
        """Return how a task ended if it has succeeded."""
        if (key, scope) in self._started:
            self._met.add((key, scope))
        return self._successes.get((key, scope))


def _place(event: Json) -> Place:
    return event["key"], event["scope"]
