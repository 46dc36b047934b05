"""When processes are started again, with back-off: those of a group a bounded number of times.

A process of a group is lost when a signal that nobody here sent has ended it, as a machine's
failure or the kernel would, or when it asks to be started again by its exit code. Any other exit
code but 0 is an error of its own, which starting again would only repeat.
"""

from dataclasses import dataclass, field

RESTART_EXIT_CODE = 143  # 128 + SIGTERM: preempted
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
# A server that was healthy for so long has recovered: its next end is its first.
RECOVERED_SECONDS = 60.0


def asks_for_restart(exit_code: int | None, killed_by: str) -> bool:
    """Whether a process that ended like this is lost, not wrong."""
    return bool(killed_by) or exit_code == RESTART_EXIT_CODE


@dataclass
class Restarts:
    """The restarts of one group.

    Attributes:
        limit: How many there may be; 0 for none.
        whole_group: Whether all processes are started again when one is lost.
        count: How many there have been.
        due: When the next one is, by time.monotonic; infinite while none is planned.
        names: The processes that it starts.
    """

    limit: int = 0
    whole_group: bool = False
    count: int = 0
    due: float = float("inf")
    names: set[str] = field(default_factory=set)

    @property
    def is_planned(self) -> bool:
        """Whether a restart is to come."""
        return bool(self.names)

    @property
    def are_left(self) -> bool:
        """Whether one more is allowed."""
        return self.count < self.limit

    def plan(self, names: set[str], *, moment: float) -> None:
        """Plans to start `names` again; each restart waits twice as long as the one before."""
        delay = min(FIRST_DELAY_SECONDS * 2**self.count, LONGEST_DELAY_SECONDS)
        self.count += 1
        self.names |= names
        self.due = moment + delay

    def drop(self) -> set[str]:
        """Forgets the plan, because it is carried out or because the group ends; answers it."""
        names, self.names, self.due = self.names, set(), float("inf")
        return names


@dataclass
class Backoff:
    """The delays before the restarts of a server, which is restarted for ever.

    Attributes:
        failures: How often it has ended, or not got healthy, since it last was healthy for long.
    """

    failures: int = 0

    def next_delay(self, *, healthy_seconds: float) -> float:
        """Count an end of the server after `healthy_seconds`; return the delay in seconds."""
        if healthy_seconds >= RECOVERED_SECONDS:
            self.failures = 0
        self.failures += 1
        return min(FIRST_DELAY_SECONDS * 2.0 ** min(self.failures - 1, 10), LONGEST_DELAY_SECONDS)
