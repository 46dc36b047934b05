"""Processes of a job's cluster and their environment, from its worker pools: pure functions.

The environment is Vertex AI's (cloud.google.com/vertex-ai/docs/training/distributed-training and
…/code-requirements): TF_CONFIG, CLUSTER_SPEC, AIP_MODEL_DIR and its like, CLOUD_ML_JOB_ID.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from vertex_local import Json
from vertex_local.jobs.record import ROLES, JobPlan, WorkerPool
from vertex_local.machine import buckets, system
from vertex_local.machine import docker as containers
from vertex_local.machine.docker_engine import Engine
from vertex_local.machine.ports import LOOPBACK
from vertex_local.processes.group import ProcessSpec

Addresses = dict[int, list[str]]

# TensorFlow reads this when it starts. Its inter-op threads are not limited: with one of them a
# worker deadlocks.
THREADS_VARIABLE = "TF_NUM_INTRAOP_THREADS"

CONTAINER_PORT = 2222
# These serve the others and are stopped when the chief exits.
SERVICE_ROLES = ("ps", "evaluator")
STATEFUL_ROLES = ("chief", "ps")


def process_specs(
    plan: JobPlan, *, folder: Path, ports: list[int], common_env: dict[str, str]
) -> list[ProcessSpec]:
    """Return the processes of a job, chief first; each gets `common_env`."""
    addresses = assign_addresses(plan.pools, ports)
    outputs = output_variables(buckets.uri_of(str(plan.output_dir or "")))
    return _specs(plan, addresses, folder=folder, common_env=common_env | outputs)


def contained_specs(
    plan: JobPlan, *, folder: Path, engine: Engine, common_env: dict[str, str]
) -> list[ProcessSpec]:
    """Return them as containers of the pools' images, as hosts on a private network of the job."""
    images = [pool.image for pool in plan.pools for _ in range(pool.num_replicas)]
    env = common_env | output_variables(str(plan.output_dir or ""))
    specs = _specs(plan, host_addresses(plan.pools), folder=folder, common_env=env)
    return [
        replace(
            spec,
            cwd=None,
            container=engine.container(
                image, network=containers.PRIVATE, host_name=spec.log_path.stem
            ),
        )
        for spec, image in zip(specs, images, strict=True)
    ]


def _specs(
    plan: JobPlan, addresses: Addresses, *, folder: Path, common_env: dict[str, str]
) -> list[ProcessSpec]:
    num_computing = len(computing(plan.replica_names))
    threads = thread_variables(num_computing, num_cores=system.num_cores())
    return [
        ProcessSpec(
            name=f"{pool.role}/{replica}",
            command=list(pool.command),
            env=threads
            | pool.env
            | common_env
            | cluster_variables(plan, addresses, pool=pool, replica=replica),
            cwd=str(folder),
            log_path=folder / f"{task_name(pool.index, replica)}.log",
            is_primary=pool.index == 0,
            is_service=pool.role in SERVICE_ROLES,
            holds_state=pool.role in STATEFUL_ROLES,
            environment=sys.prefix,
        )
        for pool in plan.pools
        for replica in range(pool.num_replicas)
    ]


def computing(names: list[str]) -> list[str]:
    """Return the replicas that compute: workers, and the chief unless the job has a ps."""
    has_servers = any(name.startswith("ps/") for name in names)
    roles = ("worker",) if has_servers else ("chief", "worker")
    return [name for name in names if name.partition("/")[0] in roles]


def thread_variables(num_computing: int, *, num_cores: int) -> dict[str, str]:
    """Return the variable that limits threads, if several replicas share the cores.

    Nothing if the environment of the service sets it.
    """
    if num_computing < 2 or THREADS_VARIABLE in os.environ:  # noqa: PLR2004
        return {}
    return {THREADS_VARIABLE: str(max(1, num_cores // num_computing))}


def task_name(pool_index: int, replica: int) -> str:
    """Return the name of a replica in Cloud Logging: `workerpool1-0`."""
    return f"workerpool{pool_index}-{replica}"


def assign_addresses(pools: tuple[WorkerPool, ...], ports: list[int]) -> Addresses:
    """Return `host:port` of every replica, by pool index."""
    rest = iter(ports)
    return {
        pool.index: [f"{LOOPBACK}:{next(rest)}" for _ in range(pool.num_replicas)] for pool in pools
    }


def host_addresses(pools: tuple[WorkerPool, ...]) -> Addresses:
    """Return the addresses of replicas that are hosts: `workerpool1-0:2222`, by pool index."""
    return {
        pool.index: [
            f"{task_name(pool.index, i)}:{CONTAINER_PORT}" for i in range(pool.num_replicas)
        ]
        for pool in pools
    }


def cluster_variables(
    plan: JobPlan, addresses: Addresses, *, pool: WorkerPool, replica: int
) -> dict[str, str]:
    """Return TF_CONFIG and CLUSTER_SPEC of a replica, which a single replica gets as well."""
    cluster_spec = {
        "cluster": {f"workerpool{index}": hosts for index, hosts in addresses.items()},
        "environment": "cloud",
        "task": {"type": f"workerpool{pool.index}", "index": replica},
        "job": plan.job_spec,
    }
    tf_config = tf_config_for(addresses, role=pool.role, replica=replica)
    return {"TF_CONFIG": json.dumps(tf_config), "CLUSTER_SPEC": json.dumps(cluster_spec)}


def tf_config_for(addresses: Addresses, *, role: str, replica: int) -> Json:
    """Return TF_CONFIG; its cluster never includes an evaluator."""
    cluster = {
        ROLES[index]: hosts for index, hosts in addresses.items() if ROLES[index] != "evaluator"
    }
    return {"cluster": cluster, "environment": "cloud", "task": {"type": role, "index": replica}}


def output_variables(output_dir: str) -> dict[str, str]:
    """Return the output folders below the base output directory; nothing without one."""
    if not output_dir:
        return {}
    return {
        "AIP_MODEL_DIR": f"{output_dir}/model/",
        "AIP_CHECKPOINT_DIR": f"{output_dir}/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": f"{output_dir}/logs/",
    }
