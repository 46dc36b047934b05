"""Errors whose message is meant for the person who started the job."""

import re
import signal

# What a replica ends with when starting the job again is all that is needed: the code of a process
# ended by SIGTERM, which Kubernetes' training operators also count among those worth a restart.
EXIT_RESTART = 128 + signal.SIGTERM

_GRAPH_NOISE = re.compile(r"\{\{[^}]*\}\} ?| ?\[Op:\w+\].*")


class TrainerError(Exception):
    """The job cannot go on; the message says why and what to do."""


class ClusterError(TrainerError, ValueError):
    """A cluster that cannot train; `problems` has a sentence for each reason."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


class InputError(TrainerError):
    """The examples folder is incomplete, damaged or does not fit the workload."""


class ReplicaLostError(TrainerError):
    """Another replica of the job has died or cannot be reached."""


class DivergedError(TrainerError):
    """The loss has become infinite, not a number, or far larger than it was."""


class Preempted(TrainerError):  # noqa: N818 - not a failure: the job was asked to stop
    """The job was told to stop (SIGTERM) and has saved its state."""


def first_line(error: Exception) -> str:
    """Returns an error of TensorFlow as one line, without the names of graph nodes."""
    lines = str(error).splitlines() or [type(error).__name__]
    return _GRAPH_NOISE.sub("", lines[0]).strip()
