"""TF_CONFIG as Vertex AI sets it: the cluster, this replica's task, the job's strategy."""

import errno
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.cluster.roles import CLUSTER_ROLES, STRATEGIES, find_role_errors, infer_strategy
from trainer.errors import ClusterError, TrainerError

# What messages about TF_CONFIG call the number of replicas of each role.
COUNT_NAMES = {role: f"the number of cluster.{role}" for role in CLUSTER_ROLES}
_ADDRESS = re.compile(r"[^\s:/]+:\d{1,5}")


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Addresses of a job's replicas by type, and the task of this one."""

    task_type: str = "chief"
    task_index: int = 0
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """This replica's name: `worker/1`."""
        return f"{self.task_type}/{self.task_index}"

    @property
    def is_evaluator(self) -> bool:
        """True if this replica only evaluates the checkpoints of the others."""
        return self.task_type == "evaluator"

    @property
    def is_chief(self) -> bool:
        """True if this replica writes the results of the job."""
        if self.task_type == "worker":
            return self.task_index == 0 and "chief" not in self.addresses
        return self.task_type == "chief"

    def count(self, job_type: str) -> int:
        """Return the number of replicas of a type."""
        return len(self.addresses.get(job_type, ()))

    def replicas(self, *job_types: str) -> dict[str, str]:
        """Return {"worker/0": "host:port", …} of the given types."""
        return {
            f"{job_type}/{index}": address
            for job_type in job_types
            for index, address in enumerate(self.addresses.get(job_type, ()))
        }

    def role_counts(self) -> dict[str, int]:
        """Returns how many replicas of each role there are; a lone worker is its own chief."""
        counts = {role: self.count(role) for role in CLUSTER_ROLES}
        if not counts["chief"] and counts["worker"] <= 1 and not counts["ps"]:
            counts |= {"chief": 1, "worker": 0}
        return counts | {"evaluator": int(self.is_evaluator)}

    def trainers(self) -> dict[str, str]:
        """Returns the replicas that compute gradients, in the order of their ranks."""
        return self.replicas("chief", "worker")

    def num_computing_here(self) -> int:
        """Returns how many replicas with this one's host in their address compute gradients."""
        own = self.replicas(self.task_type).get(self.name, "").rpartition(":")[0]
        computing = self.replicas("worker") if self.count("ps") else self.trainers()
        hosts = [address.rpartition(":")[0] for address in computing.values()]
        return max(1, hosts.count(own))

    @property
    def chief_name(self) -> str:
        """Name of the replica that writes the results: `chief/0`, or `worker/0` without a chief."""
        return "chief/0" if self.count("chief") or not self.count("worker") else "worker/0"

    def describe(self) -> str:
        """Returns "1 chief, 2 worker, 1 ps"."""
        return ", ".join(f"{self.count(job)} {job}" for job in CLUSTER_ROLES if self.count(job))


def parse_tf_config(text: str | None) -> Cluster:
    """Return the cluster in TF_CONFIG; without TF_CONFIG, a lone chief."""
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
    size = len(addresses.get(task_type, ()))
    if task_type != "evaluator" and addresses and task_index >= size:
        raise ClusterError(
            f"TF_CONFIG: task {task_type}/{task_index} is not in the cluster, which has {size}"
            f" {task_type} replicas"
        )
    return Cluster(task_type=task_type, task_index=task_index, addresses=addresses)


def choose_strategy(requested: str, cluster: Cluster) -> str:
    """Return the job's strategy, the same on every replica of its cluster.

    One replica alone is `single` under `auto`; several GPUs: `trainer.training.model.devices`.

    Raises:
        ClusterError: the cluster cannot do what is requested; says what to change.
    """
    counts = cluster.role_counts()
    strategy = infer_strategy(counts) if requested == "auto" else requested
    # An evaluator only reads checkpoints: TF_CONFIG may leave the cluster out.
    if cluster.is_evaluator and not cluster.addresses:
        return strategy
    names = {"strategy": "--strategy", **COUNT_NAMES}
    if errors := find_role_errors(strategy, counts, names=names):
        remedy = "" if requested == "auto" else "; or use --strategy auto"
        raise ClusterError(
            f"TF_CONFIG has {cluster.describe() or 'no cluster'}: {'; '.join(errors)}{remedy}"
        )
    return strategy


def _parse_addresses(jobs: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(jobs, dict):
        raise ClusterError('TF_CONFIG: cluster must be an object: {"chief": ["host:port"], …}')
    if "evaluator" in jobs:
        raise ClusterError(
            "TF_CONFIG: an evaluator is a task but never in cluster; remove it there"
        )
    addresses = {}
    for job_type, entries in jobs.items():
        name = _job_type(job_type, f"cluster.{job_type}")
        if name in addresses:
            raise ClusterError(
                "TF_CONFIG: cluster has both chief and master, its old name; remove one"
            )
        if not isinstance(entries, list):
            raise ClusterError(f"TF_CONFIG: cluster.{job_type} must be a list of host:port")
        for address in entries:
            if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
                raise ClusterError(f"TF_CONFIG: cluster.{job_type}: {address!r} is not host:port")
        addresses[name] = tuple(entries)
    every = [address for job in addresses.values() for address in job]
    if twice := [address for address in every if every.count(address) > 1]:
        raise ClusterError(f"TF_CONFIG: more than one replica has the address {twice[0]}")
    return {name: job for name, job in addresses.items() if job}


def _parse_task(task: Any) -> tuple[str, int]:
    if not isinstance(task, dict):
        raise ClusterError('TF_CONFIG: task must be an object: {"type": "worker", "index": 0}')
    role = task.get("type", "chief")
    task_type = "evaluator" if role == "evaluator" else _job_type(role, "task.type")
    index = task.get("index", 0)
    # Some launchers write the index as a string.
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise ClusterError(f"TF_CONFIG: task.index {index!r} must be a whole number of at least 0")
    return task_type, index


def _job_type(role: Any, where: str) -> str:
    name = "chief" if role == "master" else role
    if name not in CLUSTER_ROLES:
        allowed = ", ".join(CLUSTER_ROLES)
        raise ClusterError(f"TF_CONFIG: {where}: {role!r} is not a replica type; use {allowed}")
    return name


def check_port(cluster: Cluster, *, strategy: str) -> None:
    """Raise TrainerError if this replica cannot listen on its port in TF_CONFIG.

    TensorFlow would report it only after its import, without naming the replica.
    """
    addresses = cluster.addresses.get(cluster.task_type, ())
    if "worker" not in STRATEGIES[strategy] or not addresses:
        return
    address = addresses[cluster.task_index]
    port = int(address.rsplit(":", 1)[1])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Lingering connections of an earlier process do not matter, only a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))  # as TensorFlow does: on every interface
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            reason = "another process listens on it" if is_taken else error.strerror
            raise TrainerError(
                f"{cluster.name} cannot serve at {address}: port {port}: {reason}; stop that"
                " process (a replica of an earlier job?), or give this replica another port in"
                " TF_CONFIG"
            ) from error
