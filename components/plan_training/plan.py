"""The request for a training job, and for the container that will serve what it trains."""

import json
from dataclasses import dataclass
from typing import Any

from components.plan_training.cluster_spec import ClusterSpec

SERVING_PORT = 8080
# Their replicas wait for each other at every step: one that is lost ends all.
SYNCHRONOUS_CLUSTERS = ("multi_worker_mirrored",)

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What `CustomTrainingJobOp` is given, and a sentence that explains it."""

    worker_pool_specs: list[Json]
    timeout: str
    restarts_whole_job: bool
    explanation: str


def plan_training(
    workload: str, *, cluster: ClusterSpec, train: Json, image: str, examples_uri: str
) -> TrainingPlan:
    """Plans a job that trains `workload` on `examples_uri` with the flags of `train`."""
    container = {
        "image_uri": image,
        "command": ["python", "-m", "trainer.task"],
        "args": trainer_args(
            {
                "workload": workload,
                "examples_dir": examples_uri,
                "strategy": cluster.strategy,
                **train,
            }
        ),
    }
    return TrainingPlan(
        worker_pool_specs=worker_pools(cluster, container=container),
        timeout=f"{cluster.timeout_seconds}s",
        restarts_whole_job=cluster.strategy in SYNCHRONOUS_CLUSTERS,
        explanation=f"{cluster} ({cluster.strategy}) on {cluster.machine}, {json.dumps(train)}",
    )


def worker_pools(cluster: ClusterSpec, *, container: Json) -> list[Json]:
    """Vertex AI's worker pools, in its order: chief, worker, ps, evaluator.

    The launcher builds the job with the SDK's client, which takes field names in snake case only.
    Counts are strings: a number inside a structure would reach the job as `2.0` under kfp.local.
    A pool without replicas in front of others keeps its place by the count "0": the launcher drops
    `{}` from lists, and the pools after it would become other roles, while a text stays; in the
    request both are the same empty pool.
    https://cloud.google.com/vertex-ai/docs/training/distributed-training
    """
    counts = [1, cluster.workers, cluster.parameter_servers, cluster.evaluators]
    while not counts[-1]:
        counts.pop()
    return [_pool(count, cluster=cluster, container=container) for count in counts]


def _pool(count: int, *, cluster: ClusterSpec, container: Json) -> Json:
    if not count:
        return {"replica_count": "0"}
    return {
        "machine_spec": {"machine_type": cluster.machine},
        "replica_count": str(count),
        "container_spec": container,
    }


def trainer_args(flags: Json) -> list[str]:
    """`{"batch_size": 128, "fresh": True}` as `["--batch-size=128", "--fresh"]`."""
    args = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            args.append(flag)
        elif value is not False and value is not None:
            args.append(f"{flag}={value}")
    return args


def serving_container(image: str) -> Json:
    """The container spec of the model: how Vertex AI starts and asks the prediction server."""
    return {
        "imageUri": image,
        "command": ["python", "-m", "trainer.serve"],
        "ports": [{"containerPort": SERVING_PORT}],
        "healthRoute": "/health",
        "predictRoute": "/predict",
    }
