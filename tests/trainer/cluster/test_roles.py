"""Rules between the roles and the strategies of a cluster."""

import itertools
import json

import pytest

from components.plan_training.shape import COUNT_KEYS, ClusterSpec
from trainer.cluster.roles import (
    CLUSTER_ROLES,
    ROLES,
    STRATEGIES,
    computing_roles,
    find_role_errors,
    infer_strategy,
    max_gpus,
)
from trainer.cluster.tf_config import choose_strategy, parse_tf_config
from trainer.errors import ClusterError, ConfigError

pytestmark = pytest.mark.fast

NAMES = {"strategy": "strategy", **{role: role for role in ROLES}}


def find_errors(strategy, *numbers):
    counts = dict(zip(ROLES, (*numbers, 0, 0, 0, 0), strict=False))
    return find_role_errors(strategy, counts, names=NAMES)


@pytest.mark.parametrize(
    ("strategy", "numbers"),
    [
        ("single", (1,)),
        ("mirrored", (1,)),
        ("multi_worker_mirrored", (1, 1)),
        ("multi_worker_mirrored", (0, 2)),
        ("parameter_server", (1, 1, 1)),
        ("single", (1, 0, 0, 1)),
        ("parameter_server", (1, 20, 5, 1)),
    ],
)
def test_clusters_that_can_train_have_no_errors(strategy, numbers):
    assert find_errors(strategy, *numbers) == []


@pytest.mark.parametrize(
    ("strategy", "numbers", "named"),
    [
        ("single", (0,), ["chief is 0"]),
        ("mirrored", (1, 1), ["worker is 1"]),
        ("single", (1, 2, 1), ["worker is 2", "ps is 1"]),
        ("multi_worker_mirrored", (1, 0), ["worker is 0"]),
        ("multi_worker_mirrored", (0, 1), ["chief is 0 and worker is 1"]),
        ("multi_worker_mirrored", (2, 1), ["chief is 2"]),
        ("multi_worker_mirrored", (1, 1, 1), ["ps is 1"]),
        ("parameter_server", (0, 2, 1), ["chief is 0"]),
        ("parameter_server", (1,), ["worker is 0", "ps is 0"]),
        ("single", (1, 0, 0, 2), ["evaluator is 2"]),
    ],
)
def test_each_wrong_number_is_named_with_its_remedy(strategy, numbers, named):
    errors = find_errors(strategy, *numbers)
    assert len(errors) == len(named)
    for error, words in zip(errors, named, strict=True):
        assert error.startswith(words)
        assert "set " in error or "must be 1" in error


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_plan_and_the_replica_agree_on_every_cluster(strategy):
    """A cluster that passes one of the two checks passes the other, on each of its replicas."""
    for numbers in itertools.product(range(3), repeat=3):
        counts = dict(zip(CLUSTER_ROLES, numbers, strict=True))
        values = {COUNT_KEYS[role]: count for role, count in counts.items()}
        try:
            ClusterSpec(strategy=strategy, **values)
        except ConfigError:
            can_train = False
        else:
            can_train = True
        jobs = {
            role: [f"{role}-{index}:1" for index in range(n)] for role, n in counts.items() if n
        }
        for role in jobs:
            text = json.dumps({"cluster": jobs, "task": {"type": role, "index": 0}})
            replica = parse_tf_config(text)
            if can_train:
                assert choose_strategy(strategy, replica) == strategy
            elif replica.role_counts() == {**counts, "evaluator": 0}:
                with pytest.raises(ClusterError):
                    choose_strategy(strategy, replica)


def test_the_strategy_follows_from_the_replicas():
    assert infer_strategy({"chief": 1}, num_gpus=4) == "mirrored"
    assert infer_strategy({"worker": 2}, num_gpus=4) == "multi_worker_mirrored"


def test_the_chief_of_parameter_servers_computes_no_gradients():
    assert computing_roles("parameter_server") == ("worker",)
    assert computing_roles("multi_worker_mirrored") == ("chief", "worker")
    assert [max_gpus("parameter_server", role) for role in ROLES] == [1, 1, 0, 1]
    assert max_gpus("multi_worker_mirrored", "worker") is None
