"""TF_CONFIG, as Vertex AI sets it: this replica's role, and the strategy of the whole job."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.errors import ClusterError

JOB_TYPES = ("chief", "worker", "ps")
_ADDRESS = re.compile(r"[^\s:/]+:\d{1,5}")


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The replicas of a job by type, and which of them this process is."""

    task_type: str = "chief"
    task_index: int = 0
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """This replica's name: `worker/1`."""
        return f"{self.task_type}/{self.task_index}"

    @property
    def is_chief(self) -> bool:
        """Whether this replica writes the job's results."""
        if self.task_type == "worker":
            return self.task_index == 0 and "chief" not in self.addresses
        return self.task_type == "chief"

    def count(self, job_type: str) -> int:
        """Returns how many replicas of that type the cluster has."""
        return len(self.addresses.get(job_type, ()))

    def replicas(self, *job_types: str) -> dict[str, str]:
        """Returns {"worker/0": "host:port", …} of the given types."""
        return {
            f"{job_type}/{index}": address
            for job_type in job_types
            for index, address in enumerate(self.addresses.get(job_type, ()))
        }

    def describe(self) -> str:
        """Returns "1 chief, 2 worker, 1 ps"."""
        return ", ".join(f"{self.count(job)} {job}" for job in JOB_TYPES if self.count(job))


def parse_tf_config(text: str | None) -> Cluster:
    """Returns the cluster that TF_CONFIG describes; without one, a lone chief."""
    if not text or not text.strip():
        return Cluster()
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ClusterError(f"TF_CONFIG is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ClusterError('TF_CONFIG must be an object: {"cluster": …, "task": …}')
    addresses = _parse_addresses(config.get("cluster", {}))
    task_type, task_index = _parse_task(config.get("task", {}))
    _check_task(task_type, task_index, addresses)
    return Cluster(task_type=task_type, task_index=task_index, addresses=addresses)


def choose_strategy(requested: str, cluster: Cluster) -> str:
    """Returns `single` or `parameter_server`; ClusterError if the cluster cannot do it."""
    if cluster.task_type == "evaluator":
        raise ClusterError("TF_CONFIG: task evaluator/0 is not supported; the chief evaluates")
    has_others = bool(cluster.count("worker") + cluster.count("ps"))
    is_alone = not has_others or (cluster.count("worker") == 1 and len(cluster.addresses) == 1)
    strategy = requested
    if requested == "auto":
        strategy = "parameter_server" if cluster.count("ps") or not is_alone else "single"
    if strategy == "single" and not is_alone:
        raise ClusterError(
            f"--strategy single trains on one replica, but TF_CONFIG has {cluster.describe()};"
            " use --strategy auto, or a cluster of one chief"
        )
    if strategy == "parameter_server":
        _check_parameter_server(cluster)
    return strategy


def _check_parameter_server(cluster: Cluster) -> None:
    missing = [job for job in JOB_TYPES if not cluster.count(job)]
    if missing:
        raise ClusterError(
            "parameter_server needs a chief, workers and ps in TF_CONFIG, but it has"
            f" {cluster.describe() or 'no cluster'}: add {' and '.join(missing)},"
            " or train on a lone chief"
        )
    if cluster.count("chief") > 1:
        raise ClusterError(f"TF_CONFIG has {cluster.count('chief')} chiefs; use one")


def _parse_addresses(jobs: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(jobs, dict):
        raise ClusterError('TF_CONFIG: cluster must be an object: {"chief": ["host:port"], …}')
    if "evaluator" in jobs:
        raise ClusterError(
            "TF_CONFIG: an evaluator is a task but never in cluster; remove it there"
        )
    addresses = {}
    for job_type, given in jobs.items():
        name = _job_type(job_type, f"cluster.{job_type}")
        if name in addresses:
            raise ClusterError("TF_CONFIG: cluster has both chief and master; they are the same")
        addresses[name] = _parse_job(job_type, given)
    _check_distinct([address for job in addresses.values() for address in job])
    return {name: job for name, job in addresses.items() if job}


def _parse_job(job_type: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise ClusterError(f"TF_CONFIG: cluster.{job_type} must be a list of host:port")
    for address in given:
        if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
            raise ClusterError(f"TF_CONFIG: cluster.{job_type}: {address!r} is not host:port")
    return tuple(given)


def _check_distinct(addresses: list[str]) -> None:
    for address in addresses:
        if addresses.count(address) > 1:
            raise ClusterError(f"TF_CONFIG: {address} is given to more than one replica")


def _parse_task(task: Any) -> tuple[str, int]:
    if not isinstance(task, dict):
        raise ClusterError('TF_CONFIG: task must be an object: {"type": "worker", "index": 0}')
    given = task.get("type", "chief")
    task_type = "evaluator" if given == "evaluator" else _job_type(given, "task.type")
    index = task.get("index", 0)
    # Some launchers write the index as a string.
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise ClusterError(f"TF_CONFIG: task.index {index!r} must be a whole number from 0")
    return task_type, index


def _job_type(given: Any, where: str) -> str:
    name = "chief" if given == "master" else given
    if name not in JOB_TYPES:
        allowed = ", ".join(JOB_TYPES)
        raise ClusterError(f"TF_CONFIG: {where}: {given!r} is not a replica type; use {allowed}")
    return name


def _check_task(task_type: str, index: int, addresses: Mapping[str, tuple[str, ...]]) -> None:
    if task_type == "evaluator" or not addresses:
        return
    size = len(addresses.get(task_type, ()))
    if index >= size:
        raise ClusterError(
            f"TF_CONFIG: task {task_type}/{index} is not in the cluster, which has {size}"
            f" {task_type} replicas"
        )
