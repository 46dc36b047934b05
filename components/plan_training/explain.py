"""Explanation of a cluster: pools, chief, batches, cost, TF_CONFIG and notes."""

import json
from collections.abc import Sequence

from components.plan_training.cluster_file import SPELLINGS, ClusterFile
from components.plan_training.plan import SPOT_CHECKPOINT_SECONDS
from components.plan_training.prices import PriceTable, cluster_cost, quota_needed, resource_note
from components.plan_training.shape import Shape
from components.plan_training.spellings.tf_config import (
    placeholder_hosts,
    replica_names,
    tf_configs,
)
from trainer.cluster.roles import computing_roles

_STRATEGIES = {
    "single": "one replica trains alone",
    "mirrored": "one machine; each of its GPUs computes an equal share of every batch",
    "multi_worker_mirrored": "all replicas compute a share of every batch and sum their gradients;"
    " they wait for each other at every step",
    "parameter_server": "workers compute batches, each at its own pace; parameter servers hold"
    " the weights; the chief hands out the steps",
}
_RESTARTS = {
    "never": "nothing restarts when a replica is lost",
    "whole_job": "all replicas restart when one is lost",
    "replica": "a lost replica restarts; if it is the chief or a ps, the job resumes from its last"
    " checkpoint",
}


def explain(
    file: ClusterFile, *, batch_size: int, prices: PriceTable, hosts: Sequence[str] = ()
) -> list[str]:
    """Return the lines of the explanation."""
    shape = file.spec
    configs = tf_configs(shape, hosts or placeholder_hosts(shape))
    remarks = [*file.warnings, *notes(shape, batch_size)]
    return [
        f"{file.path}: {SPELLINGS[file.spelling].title}",
        "",
        *_pools(shape),
        "",
        *_roles(shape),
        _work(shape, batch_size),
        *_cost(shape, prices),
        "",
        "TF_CONFIG",
        *(f"  {name:<12} {json.dumps(config)}" for name, config in configs.items()),
        "",
        "notes" if remarks else "notes: none",
        *(f"  - {remark}" for remark in remarks),
    ]


def notes(shape: Shape, batch_size: int) -> list[str]:
    """Return notes on a cluster that can train."""
    texts = [
        (
            min(batch_parts(shape, batch_size).values()) < 1,
            f"a batch of {batch_size} examples is too small for all devices, and the"
            " trainer will refuse it; use a larger --batch-size",
        ),
        (
            shape.chief == 0,
            "no chief: worker/0 is the chief of a cluster started by hand; on Vertex AI and"
            " vertex-local the first replica is named chief",
        ),
        (
            shape.restarts == "never",
            "restarts: a pipeline's training step cannot forbid them (CustomTrainingJobOp has no"
            " disableRetries); a job without a pipeline can",
        ),
        (
            any(pool.machine.accelerator for pool in shape.pools()),
            "GPUs are for Vertex AI; on a laptop the same replicas compute on its CPUs",
        ),
    ]
    return [text for applies, text in texts if applies]


def batch_parts(shape: Shape, batch_size: int) -> dict[str, int]:
    """Return how many examples of a batch each replica computes; asynchronous: a whole batch.

    Batches are divided as in the trainer (trainer/training/step.py).
    """
    computing = [
        (f"{pool.role}/{index}", pool.machine.accelerator)
        for pool in shape.pools()
        if pool.role in computing_roles(shape.strategy)
        for index in range(pool.count)
    ]
    if shape.is_asynchronous:
        return {name: batch_size for name, _ in computing}
    uses_all_gpus = shape.strategy != "single"
    devices = [gpus.count if gpus and uses_all_gpus else 1 for _, gpus in computing]
    total, parts, done = sum(devices), {}, 0
    for (name, _), count in zip(computing, devices, strict=True):
        first, last = done, done + count
        parts[name] = batch_size * last // total - batch_size * first // total
        done = last
    return parts


def _pools(shape: Shape) -> list[str]:
    rows = [
        f"  {pool.role:<10} {pool.count} x {pool.machine}{' (spot)' if shape.spot else ''}"
        for pool in shape.pools()
    ]
    return ["pools, in Vertex AI's order", *rows]


def _roles(shape: Shape) -> list[str]:
    kind = "whole_job" if shape.restarts_whole_job else "replica"
    restarts = _RESTARTS["never" if shape.restarts == "never" else kind]
    spot = (
        f"; a checkpoint every {SPOT_CHECKPOINT_SECONDS} s, unless the run sets another interval"
        if shape.spot
        else ""
    )
    chief = replica_names(shape)[0]
    return [
        f"chief     {chief}: writes checkpoints, logs and the model",
        f"strategy  {shape.strategy}: {_STRATEGIES[shape.strategy]}",
        f"lost      {restarts}{spot}",
    ]


def _work(shape: Shape, batch_size: int) -> str:
    parts = batch_parts(shape, batch_size)
    each = ", ".join(f"{name} {count}" for name, count in parts.items())
    kind = "each worker computes whole batches" if shape.is_asynchronous else "of each batch"
    return f"batch     {batch_size} examples a step; {kind}: {each}"


def _cost(shape: Shape, prices: PriceTable) -> list[str]:
    if note := resource_note(shape):
        return [f"cost      {note}"]
    cost = cluster_cost(shape, prices)
    most = cost.until(shape.timeout_seconds, is_spot=shape.spot)
    kind = "spot" if shape.spot else "on demand"
    lines = [
        f"cost      ${cost.on_demand:.2f} an hour on demand, about ${cost.spot:.2f} on spot;"
        f" at most ${most:.2f} ({kind}) in its {shape.timeout_seconds} s"
        f" ({prices.region}, {prices.date})"
    ]
    if cost.unknown:
        lines.append(f"          without {', '.join(cost.unknown)}: not in the price table")
    needed = ", ".join(f"{name} {count}" for name, count in quota_needed(shape).items())
    return [*lines, f"quota     {needed or 'none'}"]
