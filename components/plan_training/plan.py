"""Request for a training job."""

import json
from dataclasses import dataclass

from components.plan_training.machines import Machine
from components.plan_training.shape import ClusterSpec
from components.plan_training.spellings.pools import COMMAND
from trainer import Json, paths
from trainer.cluster.roles import ROLES
from trainer.config.model_settings import is_model_setting, setting_flag
from trainer.workloads.declarations.model_settings import as_text

# On spot machines: the most work that is repeated after each preemption.
SPOT_CHECKPOINT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Inputs of `CustomTrainingJobOp`, and a sentence that explains them.

    `disables_retries` is for a job without a pipeline: `CustomTrainingJobOp` has no such input.
    """

    worker_pool_specs: list[Json]
    timeout: str
    restarts_whole_job: bool
    scheduling_strategy: str
    persistent_resource: str
    disables_retries: bool
    explanation: str


def plan_training(
    workload: str, *, cluster: ClusterSpec, train: Json, image: str, examples_uri: str
) -> TrainingPlan:
    """Return the plan of a job that trains `workload` with the flags of `train`."""
    container = {
        "image_uri": cluster.image or image,
        "command": COMMAND,
        "args": trainer_args(
            {
                "workload": workload,
                "examples_dir": examples_uri,
                "strategy": trainer_strategy(cluster),
                **checkpoint_flags(cluster, train),
                **train,
            }
        ),
    }
    return TrainingPlan(
        worker_pool_specs=worker_pools(cluster, container=container),
        timeout=f"{cluster.timeout_seconds}s",
        restarts_whole_job=cluster.restarts_whole_job,
        scheduling_strategy=cluster.scheduling_strategy,
        # With files in no bucket the job is on this machine, which has no such resource.
        persistent_resource=cluster.persistent_resource * paths.is_in_bucket(examples_uri),
        disables_retries=cluster.restarts == "never",
        explanation=(
            f"{cluster} ({cluster.strategy}) on {'spot ' if cluster.spot else ''}"
            f"{cluster.machine}, {json.dumps(train)}"
        ),
    )


def trainer_strategy(cluster: ClusterSpec) -> str:
    """Return the `--strategy` of the trainer.

    It is `auto` on one machine with several GPUs, so that the job is `single` on a laptop.
    """
    gpus = cluster.machine_of("chief").accelerator
    has_several = gpus is not None and gpus.count > 1
    return "auto" if cluster.strategy == "mirrored" and has_several else cluster.strategy


def checkpoint_flags(cluster: ClusterSpec, train: Json) -> Json:
    """Return how often a job on spot machines saves checkpoints, unless the run sets it."""
    is_given = {"checkpoint_every_steps", "checkpoint_every_seconds"} & set(train)
    if not cluster.spot or is_given:
        return {}
    return {"checkpoint_every_seconds": SPOT_CHECKPOINT_SECONDS}


def worker_pools(cluster: ClusterSpec, *, container: Json) -> list[Json]:
    """Return Vertex AI's worker pools, in its order: chief, worker, ps, evaluator.

    The launcher builds the job with the SDK's client, which accepts field names in snake case only.
    Counts are strings: a number inside a structure would reach the job as `2.0` under KFP.
    An empty pool in front of others keeps its place by the count "0": the launcher would drop `{}`
    from the list, and the pools after it would become other roles. In the request both are the
    same empty pool.
    https://cloud.google.com/vertex-ai/docs/training/distributed-training
    """
    pools = {pool.role: pool for pool in cluster.vertex_pools()}
    last = max(ROLES.index(role) for role in pools)
    return [
        _pool(pools[role].count, machine=pools[role].machine, container=container)
        if role in pools
        else {"replica_count": "0"}
        for role in ROLES[: last + 1]
    ]


def _pool(count: int, *, machine: Machine, container: Json) -> Json:
    spec: Json = {"machine_type": machine.type}
    if gpus := machine.accelerator:
        # A number: the launcher's client accepts no text where the proto has an int32.
        spec |= {"accelerator_type": gpus.type, "accelerator_count": gpus.count}
    return {"machine_spec": spec, "replica_count": str(count), "container_spec": container}


def trainer_args(flags: Json) -> list[str]:
    """Return `["--batch-size=128", "--fresh"]` for `{"batch_size": 128, "fresh": True}`."""
    args = []
    for name, value in flags.items():
        flag = setting_flag(name)
        if is_model_setting(name):
            args.append(f"{flag}={as_text(value)}")
        elif value is True:
            args.append(flag)
        elif isinstance(value, list):
            args.append(f"{flag}={','.join(map(str, value))}")
        elif value is not False and value is not None:
            args.append(f"{flag}={value}")
    return args
