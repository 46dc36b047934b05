"""Errors whose message is meant for the person who started the job."""


class TrainerError(Exception):
    """The job cannot go on; the message says why and what to do."""


class ClusterError(TrainerError):
    """TF_CONFIG does not describe a cluster that can train."""


class InputError(TrainerError):
    """The examples folder is incomplete, damaged or does not fit the workload."""


class ReplicaLostError(TrainerError):
    """Another replica of the job has died or cannot be reached."""


class Preempted(TrainerError):  # noqa: N818 - not a failure: the job was asked to stop
    """The job was told to stop (SIGTERM) and has saved its state."""
