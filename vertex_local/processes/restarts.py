"""Restarts with exponential back-off: of lost processes of a group, and of prediction servers.

A process is lost if a signal that the supervisor did not send has ended it (the out-of-memory
killer, a failing machine), or if its exit code asks for a restart. Any other exit code except 0 is
an error of the program, which a restart would only repeat.
"""

from dataclasses import dataclass, field

RESTART_EXIT_CODE = 143  # 128 + SIGTERM: preempted
FIRST_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 30.0
# After so long without a failure a server has recovered, and its back-off starts again.
RECOVERED_SECONDS = 60.0


def is_lost_exit(exit_code: int | None, killed_by: str) -> bool:
    """Return whether a process that exited like this is lost."""
    return bool(killed_by) or exit_code == RESTART_EXIT_CODE


@dataclass
class Restarts:
    """The restarts of one group: their `limit` and `count`, which includes the planned one.

    That starts the processes `names` at `due`, by time.monotonic.
    """

    limit: int = 0
    whole_group: bool = False
    count: int = 0
    due: float = float("inf")
    names: set[str] = field(default_factory=set)

    @property
    def is_planned(self) -> bool:
        """True if a restart is planned."""
        return bool(self.names)

    @property
    def is_allowed(self) -> bool:
        """True if the limit allows another restart."""
        return self.count < self.limit

    def plan(self, names: set[str], *, moment: float) -> None:
        """Plan a restart of `names`; each waits twice as long as the one before."""
        delay = min(FIRST_DELAY_SECONDS * 2**self.count, MAX_DELAY_SECONDS)
        self.count += 1
        self.names |= names
        self.due = moment + delay

    def take_plan(self) -> set[str]:
        """Return the names of the planned restart, and forget the plan."""
        names, self.names, self.due = self.names, set(), float("inf")
        return names


@dataclass
class Backoff:
    """Delays before the restarts of a prediction server, whose number is not limited.

    `failures` are exits and failed starts since the server was last healthy for 60 s.
    """

    failures: int = 0

    def next_delay(self, *, healthy_seconds: float) -> float:
        """Count a failure after `healthy_seconds`; return the delay in seconds."""
        if healthy_seconds >= RECOVERED_SECONDS:
            self.failures = 0
        self.failures += 1
        return min(FIRST_DELAY_SECONDS * 2.0 ** min(self.failures - 1, 10), MAX_DELAY_SECONDS)
