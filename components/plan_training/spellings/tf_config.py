"""TF_CONFIG: read as a cluster file, and written for each replica of a cluster on given hosts."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from components.plan_training.findings import FilePart, Findings
from components.plan_training.machines import Machine
from components.plan_training.shape import COUNT_KEYS, DEFAULTS, ReplicaPool, Shape
from components.plan_training.spellings.pools import COMMAND, shape_fields
from trainer import Json
from trainer.cluster.roles import CLUSTER_ROLES
from trainer.cluster.tf_config import COUNT_NAMES, Cluster, parse_tf_config
from trainer.errors import ClusterError

DEFAULT_PORT = 2222
KEYS = ("cluster", "task")
NAMES: dict[str, str] = {COUNT_KEYS[role]: name for role, name in COUNT_NAMES.items()}


class TfConfig(FilePart):
    """The keys of a TF_CONFIG."""

    ignored = ("environment", "job", "rpc_layer", "rpcLayer")
    cluster: Any = None
    task: Any = None


def read(values: Mapping[Any, Any], findings: Findings) -> Json:
    """Return the fields of a Shape; its machines are the default, TF_CONFIG has none."""
    TfConfig.read(values, findings)
    cluster = _parse(values, findings)
    machine = Machine(type=DEFAULTS.machine)
    return shape_fields(
        [
            ReplicaPool(role=role, count=count, machine=machine)
            for role, count in cluster.role_counts().items()
        ]
    )


def read_hosts(values: Mapping[Any, Any]) -> list[str]:
    """Return the hosts of a TF_CONFIG without errors, in the order of the roles."""
    cluster = parse_tf_config(json.dumps(values, default=str))
    return list(cluster.replicas(*CLUSTER_ROLES).values())


def replica_names(shape: Shape) -> list[str]:
    """Return `chief/0`, `worker/0` …, in the order in which hosts are assigned to them."""
    return [f"{pool.role}/{index}" for pool in shape.pools() for index in range(pool.count)]


def placeholder_hosts(shape: Shape) -> list[str]:
    """Return addresses for a cluster whose hosts are not known yet: `worker-1:2222`."""
    return [f"{name.replace('/', '-')}:{DEFAULT_PORT}" for name in _names_in_cluster(shape)]


def tf_configs(shape: Shape, hosts: Sequence[str]) -> dict[str, Json]:
    """Return TF_CONFIG of every replica by its name.

    Raises:
        ClusterError: there are not as many hosts as replicas, or one is not host:port.
    """
    names = _names_in_cluster(shape)
    if len(hosts) != len(names):
        raise ClusterError(
            f"--hosts has {len(hosts)} hosts, but {len(names)} replicas need one: give host:port"
            f" for {', '.join(names)}, in this order"
        )
    cluster: dict[str, list[str]] = {}
    for name, host in zip(names, hosts, strict=True):
        address = host if ":" in host else f"{host}:{DEFAULT_PORT}"
        cluster.setdefault(name.partition("/")[0], []).append(address)
    configs = {}
    for name in replica_names(shape):
        role, _, index = name.partition("/")
        configs[name] = {"cluster": cluster, "task": {"type": role, "index": int(index)}}
        try:
            parse_tf_config(json.dumps(configs[name]))
        except ClusterError as error:
            raise ClusterError(f"--hosts: {error}") from error
    return configs


def commands(shape: Shape, hosts: Sequence[str], *, flags: Sequence[str]) -> dict[str, str]:
    """Return the shell command of every replica by its name; an evaluator can run on any host."""
    return {
        name: f"TF_CONFIG={shlex.quote(json.dumps(config))} {shlex.join([*COMMAND, *flags])}"
        for name, config in tf_configs(shape, hosts).items()
    }


def _names_in_cluster(shape: Shape) -> list[str]:
    return [name for name in replica_names(shape) if name.partition("/")[0] in CLUSTER_ROLES]


def _parse(values: Mapping[Any, Any], findings: Findings) -> Cluster:
    config = dict(values)
    cluster = config.get("cluster")
    if isinstance(cluster, Mapping) and "evaluator" in cluster:
        # Reported here, so that other errors are reported as well.
        findings.errors.append(
            f"cluster.evaluator is {cluster['evaluator']!r}; an evaluator is a task of the job, but"
            " never in cluster: remove it there"
        )
        config["cluster"] = {role: at for role, at in cluster.items() if role != "evaluator"}
    try:
        return parse_tf_config(json.dumps(config, default=str))
    except ValueError as error:
        findings.errors.append(str(error))
        return Cluster()
