"""`trainyard cluster`: explanations, costs, and commands for the user's own hosts."""

import json
import os
import shlex
import subprocess

import pytest
import yaml

from components.plan_training.cluster_file import parse_cluster
from components.plan_training.explain import batch_parts
from components.plan_training.prices import cluster_cost, read_prices
from components.plan_training.shape import ClusterSpec
from components.plan_training.spellings.tf_config import commands, placeholder_hosts, tf_configs
from pipelines.cli import main
from pipelines.command.training.clusters import PRICES
from trainer.cluster.tf_config import choose_strategy, parse_tf_config
from trainer.errors import ClusterError

pytestmark = pytest.mark.fast

PS = ClusterSpec(strategy="parameter_server", workers=2, parameter_servers=1, evaluators=1)
TWO_HOSTS = ClusterSpec(strategy="multi_worker_mirrored", chief=0, workers=2)
GPUS = {"type": "NVIDIA_TESLA_T4", "count": 4}


@pytest.fixture
def cluster_file(tmp_path):
    def write(content: str):
        path = tmp_path / "cluster.yaml"
        path.write_text(content)
        return str(path)

    return write


@pytest.fixture
def run(capsys):
    def call(*arguments: str) -> tuple[int, str]:
        code = main(["cluster", *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


@pytest.mark.parametrize("cluster", [PS, TWO_HOSTS, ClusterSpec()], ids=str)
def test_every_replica_reads_its_tf_config_as_the_file_means_it(cluster):
    configs = tf_configs(cluster, placeholder_hosts(cluster))

    for name, config in configs.items():
        replica = parse_tf_config(json.dumps(config))
        assert replica.name == name
        assert choose_strategy("auto", replica) == cluster.strategy
        assert "evaluator" not in config["cluster"]
    assert len(configs) == sum(pool.count for pool in cluster.pools())
    num_evaluators = sum(name.startswith("evaluator") for name in configs)
    assert len(placeholder_hosts(cluster)) == len(configs) - num_evaluators


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (["a:1"], "--hosts has 1 hosts, but 2 replicas need one: .* worker/0, worker/1"),
        (["a:1", "b:2", "c:3"], "--hosts has 3 hosts, but 2"),
        (["a:1", "b:x"], "'b:x' is not host:port"),
        (["a:1", "a:1"], "more than one replica.*a:1"),
    ],
)
def test_wrong_hosts_are_named(hosts, words):
    with pytest.raises(ClusterError, match=words):
        tf_configs(TWO_HOSTS, hosts)


def test_a_shell_runs_the_command_as_it_is_meant(tmp_path):
    flags = ["--workload", "mnist", "--examples-dir", "a folder; touch $(echo pwned) 'quoted'"]
    command = commands(TWO_HOSTS, ["a:1", "b"], flags=flags)["worker/1"]
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$TF_CONFIG" "$@"\n')
    python.chmod(0o755)

    found = subprocess.run(
        ["sh", "-c", command],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    tf_config, *arguments = found.stdout.splitlines()
    assert json.loads(tf_config)["task"] == {"type": "worker", "index": 1}
    assert json.loads(tf_config)["cluster"] == {"worker": ["a:1", "b:2222"]}
    assert arguments == ["-m", "trainer.task", *flags]
    assert [path.name for path in tmp_path.iterdir()] == ["python"]


def test_the_command_line_prints_a_command_for_each_host(run, pytestconfig):
    path = pytestconfig.rootpath / "configs" / "clusters" / "two_hosts.yaml"
    hosts = "10.0.0.1:2222,10.0.0.2:2223"

    code, output = run("commands", str(path), "--hosts", hosts, "--", "--workload", "mnist")

    assert code == 0
    headings = [line for line in output.splitlines() if line.startswith("#")]
    assert headings == ["# worker/0, on 10.0.0.1", "# worker/1, on 10.0.0.2"]
    assert shlex.split(output.splitlines()[1])[1:] == [
        "python",
        "-m",
        "trainer.task",
        *("--workload", "mnist"),
    ]
    code, output = run("commands", str(path), "--hosts", "10.0.0.1:2222")
    assert code == 2
    assert "2 replicas need one" in output


@pytest.mark.parametrize(
    ("values", "batch_size", "parts"),
    [
        ({}, 128, {"chief/0": 128}),
        ({"strategy": "multi_worker_mirrored", "workers": 2}, 128, [42, 43, 43]),
        ({"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}, 128, [128, 128]),
        (
            {
                "strategy": "multi_worker_mirrored",
                "workers": 1,
                "accelerator": GPUS,
                "machines": {"chief": {"machine": "n1-standard-4"}},
            },
            100,
            {"chief/0": 20, "worker/0": 80},
        ),
    ],
)
def test_batches_are_divided_as_the_trainer_divides_them(values, batch_size, parts):
    found = batch_parts(ClusterSpec(**values), batch_size)

    assert (found if isinstance(parts, dict) else list(found.values())) == parts
    assert sum(found.values()) == batch_size or ClusterSpec(**values).is_asynchronous


def test_explanation_covers_the_whole_file(run, cluster_file):
    path = cluster_file(
        "strategy: parameter_server\nworkers: 6\nparameter_servers: 1\nspot: true\n"
        "evaluators: 1\nrestarts: never\naccelerator: {type: NVIDIA_TESLA_T4, count: 2}\n"
    )

    code, output = run("explain", path)

    assert code == 0
    for words in (
        "worker     6 x n1-standard-4 with 2 NVIDIA_TESLA_T4 (spot)",
        "chief     chief/0",
        "parameter_server: workers compute batches",
        "a checkpoint every 60 s",
        "128 examples a step; each worker computes whole batches: ",
        "each worker uses 1 of its 2 NVIDIA_TESLA_T4",
        "cannot forbid them",
        "on a laptop the same replicas compute on its CPUs",
        'evaluator/0  {"cluster": {"chief": ["chief-0:2222"]',
    ):
        assert words in output
    assert "evaluator" not in json.dumps(
        json.loads(output.split("chief/0      ")[1].split("\n")[0])
    )


@pytest.mark.parametrize("form", ["short", "vertex"])
def test_file_is_converted_to_another_format(run, cluster_file, form):
    spec = ClusterSpec(strategy="parameter_server", workers=2, parameter_servers=1)
    path = cluster_file(spec.to_json())

    code, output = run("explain", path, "--as", form)

    assert code == 0
    assert parse_cluster(yaml.safe_load(output)).spec == spec


def test_tf_config_is_explained_and_an_invalid_file_has_every_mistake(run, cluster_file):
    config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    code, output = run("explain", cluster_file(json.dumps(config)))
    assert code == 0
    assert "chief     worker/0" in output
    assert json.dumps(config) in output, "its own hosts"

    path = cluster_file(
        "strategy: parameter_server\nparameter_servers: -1\nmachine: n1-standard-5\n"
    )
    code, output = run("explain", path)
    assert code == 2
    for words in (
        f"{path} has 2 mistakes:",
        "parameter_servers is -1;",
        "machine is 'n1-standard-5'",
    ):
        assert words in output
    with pytest.raises(SystemExit):
        run("explain", cluster_file("strategy: single\n"), "--", "--epochs=1")


def test_the_cost_adds_up():
    table = read_prices(PRICES)
    cost = cluster_cost(
        ClusterSpec(
            strategy="parameter_server",
            workers=2,
            parameter_servers=1,
            accelerator=GPUS,
            machines={"parameter_servers": "z9-standard-4"},
        ),
        table,
    )
    base, gpu = table.machines["n1-standard-4"][0], table.accelerators["NVIDIA_TESLA_T4"][0]

    assert cost.on_demand == pytest.approx(3 * base + 2 * 4 * gpu)
    assert cost.spot < cost.on_demand
    assert cost.unknown == ("z9-standard-4",)
    assert cost.until(1800, is_spot=False) == pytest.approx(cost.on_demand / 2)
    with_gpus = ClusterSpec(machine="g2-standard-4", accelerator={"type": "NVIDIA_L4"})
    assert cluster_cost(with_gpus, table).on_demand == table.machines["g2-standard-4"][0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machines": {"m": "much"}}, "machines.m.on_demand is 'much'; it must be a number"),
        ({"machines": {"m": {"spot": 1}}}, "machines.m.on_demand is not set"),
        ({"spot_share": 3}, "spot_share is 3; it must be a number from 0 to 1"),
        ({"accelerators": None}, "accelerators is None"),
        ({"machine": {}}, "no 'machine'; did you mean 'machines'"),
    ],
)
def test_damaged_price_table_is_reported(tmp_path, change, words):
    path = tmp_path / "prices.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(PRICES.read_text()), **change}))

    with pytest.raises(ClusterError, match=words):
        read_prices(path)


def test_spot_price_may_be_given_separately(tmp_path):
    path = tmp_path / "prices.yaml"
    machines = {"m": {"on_demand": 1.5, "spot": 0.1}, "n": 2}
    path.write_text(yaml.safe_dump({"spot_share": 0.5, "machines": machines, "accelerators": {}}))

    assert dict(read_prices(path).machines) == {"m": (1.5, 0.1), "n": (2.0, 1.0)}
