"""TF_CONFIG as a cluster file: the cluster of somebody who starts replicas by hand."""

import json
from collections.abc import Mapping
from typing import Any

from components.plan_training.findings import Findings, Section
from components.plan_training.machines import Machine
from components.plan_training.shape import COUNT_KEYS, DEFAULTS, ReplicaPool, Shape
from components.plan_training.spellings.hosts import made_up_hosts, tf_configs
from components.plan_training.spellings.pools import shape_fields
from trainer.cluster.roles import CLUSTER_ROLES
from trainer.cluster.tf_config import COUNT_NAMES, Cluster, parse_tf_config
from trainer.errors import ClusterError

KEYS = ("cluster", "task")
LEFT_OUT = ("environment", "job", "rpc_layer")
NAMES = {COUNT_KEYS[role]: name for role, name in COUNT_NAMES.items()}


def read(values: Mapping[Any, Any], findings: Findings) -> dict[str, Any]:
    """The fields of a Shape; TF_CONFIG says nothing of machines, which are the usual ones."""
    Section(values, path="", findings=findings, keys=KEYS, left_out=LEFT_OUT)
    cluster = _parse(values, findings)
    machine = Machine(type=DEFAULTS.machine)
    return shape_fields(
        [
            ReplicaPool(role=role, count=count, machine=machine)
            for role, count in cluster.role_counts().items()
        ]
    )


def write(shape: Shape) -> dict[str, Any]:
    """TF_CONFIG of the first replica, on hosts with made-up names."""
    return next(iter(tf_configs(shape, made_up_hosts(shape)).values()))


def addresses(values: Mapping[Any, Any]) -> list[str]:
    """The hosts of a TF_CONFIG that has no errors, in the order of the roles."""
    cluster = parse_tf_config(json.dumps(values, default=str))
    return list(cluster.replicas(*CLUSTER_ROLES).values())


def _parse(values: Mapping[Any, Any], findings: Findings) -> Cluster:
    config = dict(values)
    cluster = config.get("cluster")
    if isinstance(cluster, Mapping) and "evaluator" in cluster:
        findings.errors.append(
            f"cluster.evaluator is {cluster['evaluator']!r}; an evaluator is a task of the job, but"
            " never in cluster: remove it there"
        )
        config["cluster"] = {role: at for role, at in cluster.items() if role != "evaluator"}
    try:
        return parse_tf_config(json.dumps(config, default=str))
    except (ClusterError, ValueError) as error:
        findings.errors.append(str(error))
        return Cluster()
