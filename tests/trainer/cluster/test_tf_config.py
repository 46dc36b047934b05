"""TF_CONFIG: roles, strategies and impossible clusters."""

import json
from random import Random

import pytest

from trainer.cluster.tf_config import Cluster, choose_strategy, parse_tf_config
from trainer.errors import ClusterError

pytestmark = pytest.mark.fast

CHIEF, WORKERS, PS = ["h:1"], ["h:2", "h:3"], ["h:4"]
FULL = {"chief": CHIEF, "worker": WORKERS, "ps": PS}


def parse(cluster, task_type="chief", index=0):
    return parse_tf_config(
        json.dumps({"cluster": cluster, "task": {"type": task_type, "index": index}})
    )


def test_no_tf_config_is_a_lone_chief():
    for text in (None, "", "  ", "{}"):
        cluster = parse_tf_config(text)
        assert cluster.name == "chief/0"
        assert cluster.is_chief
        assert choose_strategy("auto", cluster) == "single"


def test_what_vertex_sets_for_one_replica_is_single():
    text = (
        '{"cluster": {"chief": ["127.0.0.1:2222"]}, "environment": "cloud",'
        ' "task": {"type": "chief", "index": 0}, "job": "{}"}'
    )
    assert choose_strategy("auto", parse_tf_config(text)) == "single"


def test_the_addresses_of_other_replicas_are_known_by_name():
    workers = {"worker/0": "h:2", "worker/1": "h:3"}
    assert parse(FULL).replicas("worker", "ps") == {**workers, "ps/0": "h:4"}


def test_an_index_written_as_a_string_is_accepted():
    assert parse(FULL, "worker", "1").name == "worker/1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"cluster": []}', "cluster must be an object"),
        ('{"cluster": {"chief": "h:1"}}', "cluster.chief must be a list"),
        ('{"cluster": {"chief": ["h"]}}', "'h' is not host:port"),
        ('{"cluster": {"boss": ["h:1"]}}', "'boss' is not a replica type"),
        ('{"cluster": {"chief": ["h:1"], "evaluator": ["h:2"]}}', "never in cluster"),
        ('{"cluster": {"chief": ["h:1"], "master": ["h:2"]}}', "both chief and master"),
        ('{"cluster": {"chief": ["h:1"], "ps": ["h:1"]}}', "more than one replica"),
        ('{"task": {"type": "boss"}}', "'boss' is not a replica type"),
        ('{"task": {"type": "chief", "index": -1}}', "task.index"),
        ('{"task": "chief"}', "task must be an object"),
    ],
)
def test_a_malformed_tf_config_is_named(text, message):
    with pytest.raises(ClusterError, match="TF_CONFIG") as error:
        parse_tf_config(text)
    assert message in str(error.value)


@pytest.mark.parametrize("index", [2, 99])
def test_an_index_outside_the_cluster_is_refused(index):
    with pytest.raises(ClusterError, match=f"worker/{index} is not in the cluster, which has 2"):
        parse(FULL, "worker", index)


@pytest.mark.parametrize(
    ("requested", "jobs", "message"),
    [
        ("auto", {"chief": CHIEF, "ps": PS}, "cluster.worker is 0.*set it to 1"),
        ("mirrored", {"worker": WORKERS}, "2 worker: .*cluster.worker is 2.*set it to 0"),
        ("multi_worker_mirrored", FULL, "cluster.ps is 1.*set it to 0.*use --strategy auto"),
        ("multi_worker_mirrored", {}, "no cluster"),
        ("auto", {"chief": ["h:8", "h:9"], "worker": WORKERS}, "chief is 2.*must be 1"),
        ("single", FULL, "1 chief, 2 worker, 1 ps"),
    ],
)
def test_an_impossible_cluster_says_what_to_change(requested, jobs, message):
    task_type = next(iter(jobs), "chief")
    with pytest.raises(ClusterError, match=message):
        choose_strategy(requested, parse(jobs, task_type))


@pytest.mark.parametrize("requested", ["auto", "single", "mirrored"])
def test_a_lone_replica_may_be_mirrored(requested):
    expected = "single" if requested == "auto" else requested
    assert choose_strategy(requested, parse({"chief": CHIEF})) == expected


@pytest.mark.parametrize(
    ("jobs", "strategy"),
    [
        ({}, "single"),
        ({"chief": CHIEF}, "single"),
        ({"chief": CHIEF, "worker": WORKERS}, "multi_worker_mirrored"),
        (FULL, "parameter_server"),
    ],
)
def test_an_evaluator_goes_with_any_strategy(jobs, strategy):
    cluster = parse(jobs, "evaluator", 0)
    assert cluster.is_evaluator
    assert not cluster.is_chief
    assert choose_strategy("auto", cluster) == strategy


JOBS = {"chief": "chief", "master": "chief", "worker": "worker", "ps": "ps"}


@pytest.mark.parametrize("seed", range(30))
def test_any_cluster_has_one_chief_one_strategy_and_distinct_ranks(seed):
    """Of every cluster that can train, as every one of its replicas sees it."""
    random = Random(seed)
    sizes = {job: random.randint(0, 4) for job in ("worker", "ps")}
    sizes[random.choice(["chief", "master"])] = random.randint(0, 1)
    ports = iter(random.sample(range(1, 65536), 9))
    jobs = {job: [f"host:{next(ports)}" for _ in range(size)] for job, size in sizes.items()}
    replicas = [
        parse(jobs, job, random.choice([index, str(index)]))
        for job, addresses in jobs.items()
        for index in range(len(addresses))
    ]
    has_chief = any(replica.task_type == "chief" for replica in replicas)
    can_train = bool(replicas) and (not sizes["ps"] or (has_chief and sizes["worker"] > 0))
    if not can_train:
        for replica in replicas:
            with pytest.raises(ClusterError):
                choose_strategy("auto", replica)
        return
    several = "multi_worker_mirrored" if len(replicas) > 1 else "single"
    expected = "parameter_server" if sizes["ps"] else several
    for requested in ("auto", expected):
        assert {choose_strategy(requested, replica) for replica in replicas} == {expected}
    assert len({tuple(replica.trainers()) for replica in replicas}) == 1
    chiefs = [replica.name for replica in replicas if replica.is_chief]
    assert chiefs == [replicas[0].chief_name] == ["chief/0" if has_chief else "worker/0"]
    assert chiefs == list(replicas[0].trainers())[:1]
    names = {JOBS[job] + f"/{index}" for job, size in sizes.items() for index in range(size)}
    assert names == {replica.name for replica in replicas}


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (["10.0.0.1:1", "10.0.0.2:1"], 1),
        (["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"], 3),
        (["a:1", "b:1", "a:2"], 2),
    ],
)
def test_the_workers_of_a_host_are_counted(workers, expected):
    host = workers[0].partition(":")[0]
    addresses = {"chief": (f"{host}:8",), "ps": (f"{host}:9",), "worker": tuple(workers)}
    assert Cluster(task_type="worker", addresses=addresses).num_computing_here() == expected
