"""The replicas of a cluster on hosts: TF_CONFIG for each, and what to run there."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from components.plan_training.shape import Shape
from components.plan_training.spellings.vertex import COMMAND
from trainer.cluster.roles import CLUSTER_ROLES
from trainer.cluster.tf_config import parse_tf_config
from trainer.errors import ClusterError

DEFAULT_PORT = 2222

TfConfig = dict[str, Any]


def replica_names(shape: Shape) -> list[str]:
    """`chief/0`, `worker/0` …, in the order in which hosts are given to them."""
    return [f"{pool.role}/{index}" for pool in shape.pools() for index in range(pool.count)]


def made_up_hosts(shape: Shape) -> list[str]:
    """Addresses for a cluster whose hosts nobody knows yet: `worker-1:2222`."""
    return [f"{name.replace('/', '-')}:{DEFAULT_PORT}" for name in _addressed(shape)]


def tf_configs(shape: Shape, hosts: Sequence[str]) -> dict[str, TfConfig]:
    """TF_CONFIG of every replica by its name.

    Raises:
        ClusterError: there are not as many hosts as replicas, or one is not host:port.
    """
    names = _addressed(shape)
    if len(hosts) != len(names):
        raise ClusterError(
            f"--hosts has {len(hosts)} hosts, but {len(names)} replicas need one: give host:port"
            f" for {', '.join(names)}, in this order"
        )
    full = [host if ":" in host else f"{host}:{DEFAULT_PORT}" for host in hosts]
    cluster: dict[str, list[str]] = {}
    for name, host in zip(names, full, strict=True):
        cluster.setdefault(name.partition("/")[0], []).append(host)
    configs = {name: _tf_config(cluster, name) for name in replica_names(shape)}
    for config in configs.values():
        _check(config)
    return configs


def commands(shape: Shape, hosts: Sequence[str], *, flags: Sequence[str]) -> dict[str, str]:
    """The shell command of every replica by its name; an evaluator may run on any host."""
    return {
        name: f"TF_CONFIG={shlex.quote(json.dumps(config))} {shlex.join([*COMMAND, *flags])}"
        for name, config in tf_configs(shape, hosts).items()
    }


def _addressed(shape: Shape) -> list[str]:
    names = replica_names(shape)
    return [name for name in names if name.partition("/")[0] in CLUSTER_ROLES]


def _tf_config(cluster: dict[str, list[str]], name: str) -> TfConfig:
    role, _, index = name.partition("/")
    return {"cluster": cluster, "task": {"type": role, "index": int(index)}}


def _check(config: TfConfig) -> None:
    try:
        parse_tf_config(json.dumps(config))
    except ClusterError as error:
        raise ClusterError(f"--hosts: {error}") from error
