"""Cluster files: the spellings of a cluster, and an error for every mistake."""

import contextlib
import json
from pathlib import Path
from random import Random

import pytest
import yaml

from components.plan_training.cluster_file import SPELLINGS, load_cluster, parse_cluster
from components.plan_training.machines import BUILT_IN_GPUS, MACHINES, Accelerator, gpu_counts
from components.plan_training.plan import plan_training
from components.plan_training.shape import ClusterSpec
from components.plan_training.spellings.legacy import MACHINES as RETIRED
from components.plan_training.spellings.tf_config import placeholder_hosts, tf_configs
from trainer.errors import ClusterError

pytestmark = pytest.mark.fast

PS = "strategy: parameter_server\n"
WORKERS = "strategy: multi_worker_mirrored\nworkers: 1\n"
POOL = "machineSpec: {machineType: n1-standard-4}, replicaCount: 1"
VERTEX = f"workerPoolSpecs: [{{{POOL}}}]\nscheduling: {{timeout: 60s}}\n"
CUSTOM = "trainingInput:\n  scaleTier: CUSTOM\n  masterType: n1-standard-4\n"

# (content, pattern of the message: the field, its value, what is allowed)
SHORT_MISTAKES = {
    "empty": ("", "it is empty; it must hold keys and values"),
    "list": ("- workers: 2\n", "it is a list; it must hold keys and values"),
    "syntax": ("strategy: single\nworkers: [\n", "not YAML, line 3"),
    "tab": ("strategy: single\nmachines:\n\tchief: m\n", "line 3: a tab; indent with spaces"),
    "twice": (PS + "workers: 1\nworkers: 2\n", "line 3: workers is given twice, first in line 2"),
    "unknown-key": ("wrokers: 2\n", "cluster has no 'wrokers'; did you mean 'workers'"),
    "key-is-number": ("1: 2\n", "cluster has no '1'"),
    "strategy": ("strategy: paramter_server\n", "did you mean 'parameter_server'? allowed are"),
    "negative": (PS + "workers: -1\n", "workers is -1.*whole number from 0 to 500"),
    "bool-for-number": (PS + "workers: true\n", "workers is True"),
    "no-time": ("timeout_seconds: 0\n", "timeout_seconds is 0; it must be .* from 1"),
    "spot": ("spot: often\n", "spot is 'often'; it must be true or false"),
    "no-workers": (PS + "parameter_servers: 1\n", "workers is 0.*needs .*worker.*set it to 1"),
    "no-servers": (PS + "workers: 1\n", "parameter_servers is 0.*needs .*ps.*set it to 1"),
    "lone-workers": (
        "workers: 1\n",
        "workers is 1.*'single' has no worker.*to 0.*strategy to 'multi_worker_mirrored' or 'para",
    ),
    "two-chiefs": (WORKERS + "chief: 2\n", "chief is 2.*must be 1"),
    "no-chief": ("chief: 0\n", "chief is 0.*'single' needs a chief.*set it to 1"),
    "alone-without-chief": (WORKERS + "chief: 0\n", "chief is 0 and workers is 1.*workers to 2"),
    "evaluators": ("evaluators: 2\n", "evaluators is 2.*set it to 1"),
    "machine": (
        "machine: n1-standard-5\n",
        "machine is 'n1-standard-5'; allowed are n1-standard-4",
    ),
    "machine-family": (
        "machine: n1-stndard-4\n",
        "machine is 'n1-stndard-4'; did you mean 'n1-standard-4'. allowed are",
    ),
    "image": ("image: [a]\n", r"image is \['a'\].*container image"),
    "gpu": (
        "accelerator: {type: NVIDIA_TESLA_T5}\n",
        "accelerator.type is 'NVIDIA_TESLA_T5'; did you mean 'NVIDIA_TESLA_T4'? allowed are",
    ),
    "retired-gpu": ("accelerator: {type: NVIDIA_TESLA_K80}\n", "retired; use 'NVIDIA_TESLA_T4'"),
    "gpu-count": (
        "accelerator: {type: NVIDIA_TESLA_T4, count: 3}\n",
        "accelerator.count is 3; n1-standard-4 takes 1 or 2 or 4 of NVIDIA_TESLA_T4",
    ),
    "gpu-without-type": ("accelerator: {count: 1}\n", "accelerator.type is not set"),
    "gpu-text": ("accelerator: T4\n", "accelerator is 'T4'; it must be their type and number"),
    "gpu-on-e2": (
        "machine: e2-standard-4\naccelerator: {type: NVIDIA_TESLA_T4}\n",
        "accelerator.type is 'NVIDIA_TESLA_T4', but e2-standard-4 takes no GPU",
    ),
    "other-gpu-built-in": (
        "machine: g2-standard-4\naccelerator: {type: NVIDIA_TESLA_T4}\n",
        "but g2-standard-4 comes with 1 NVIDIA_L4",
    ),
    "built-in-gpu-left-out": ("machine: g2-standard-4\n", "accelerator is missing: g2-standard-4"),
    "machines-role": (
        PS + "machines: {ps: n1-standard-4}\n",
        "machines has no 'ps'; allowed are chief, workers",
    ),
    "machines-value": ("machines: {chief: 4}\n", "machines.chief is 4"),
    "mixed": ("strategy: single\n" + VERTEX, "mixes spellings: strategy .* and workerPoolSpecs"),
}
VERTEX_MISTAKES = {
    "no-pools": ("workerPoolSpecs: []\n", r"workerPoolSpecs is \[\]; it must be a list of 1 to 4"),
    "five-pools": (f"workerPoolSpecs: [{','.join(5 * ['{' + POOL + '}'])}]\n", "a list of 1 to 4"),
    "pool-is-text": ("workerPoolSpecs: [chief]\n", r"workerPoolSpecs\[0\] is 'chief'"),
    "two-chiefs": (
        VERTEX.replace("Count: 1", "Count: 2"),
        r"workerPoolSpecs\[0\].replicaCount is 2; it must be 1",
    ),
    "no-machine": (
        VERTEX.replace("machineType: n1-standard-4", ""),
        r"workerPoolSpecs\[0\].machineSpec.machineType is missing",
    ),
    "both-cases": (
        VERTEX.replace("replicaCount: 1", "replicaCount: 1, replica_count: 1"),
        r"replicaCount is given twice, also as 'replica_count'",
    ),
    "timeout": (
        VERTEX.replace("60s", "60"),
        "timeout is '60'; it must be whole seconds",
    ),
    "spot": (
        VERTEX.replace("timeout: 60s", "timeout: 60s, strategy: SPOTS"),
        "scheduling.strategy is 'SPOTS'; did you mean 'SPOT'? allowed are STANDARD, SPOT",
    ),
    "gpu-count-alone": (
        VERTEX.replace("n1-standard-4", "n1-standard-4, acceleratorCount: 1"),
        "acceleratorCount is 1, but acceleratorType is missing",
    ),
    "ps-without-worker": (
        VERTEX.replace("}]", f"}}, {{}}, {{{POOL}}}]"),
        r"workerPoolSpecs\[1\].replicaCount is 0.*needs .*worker.*set it to 1",
    ),
    "job-spec": ("jobSpec: {}\n", "jobSpec.*workerPoolSpecs at the top"),
    "strategy-flag": (
        VERTEX.replace("Count: 1", "Count: 1, containerSpec: {args: ['--strategy=horovod']}"),
        "--strategy in containerSpec.args is 'horovod'.*allowed are single",
    ),
}
LEGACY_MISTAKES = {
    "tpu": (
        "trainingInput: {scaleTier: BASIC_TPU}\n",
        "^BASIC_TPU is a TPU, which needs",
    ),
    "no-tier": ("trainingInput: {masterType: standard}\n", "trainingInput.scaleTier is not set"),
    "tier": (
        "trainingInput: {scaleTier: STANDARD}\n",
        "trainingInput.scaleTier is 'STANDARD'; did you mean 'STANDARD_1'? allowed are BASIC",
    ),
    "tier-at-top": ("scaleTier: BASIC\n", "it belongs below trainingInput"),
    "not-a-mapping": (
        "trainingInput: CUSTOM\n",
        "trainingInput is 'CUSTOM'; it must be values",
    ),
    "no-master": (
        "trainingInput: {scaleTier: CUSTOM}\n",
        "trainingInput.masterType is missing; name a machine type",
    ),
    "machine": (
        CUSTOM.replace("n1-standard-4", "complex_model_x_gpu"),
        "trainingInput.masterType is 'complex_model_x_gpu'; did you mean 'complex_model_",
    ),
    "count-without-type": (CUSTOM + "  workerCount: 2\n", "trainingInput.workerType is missing"),
    "ps-with-workers-not-counted": (
        CUSTOM + "  workerType: standard\n  parameterServerType: standard\n"
        "  parameterServerCount: 1\n",
        "trainingInput.workerCount is 0.*needs .*worker.*set it to 1",
    ),
    "count-as-fraction": (
        CUSTOM + "  workerCount: 1.0\n",
        "workerCount is 1.0; it must be a whole",
    ),
    "too-many": (CUSTOM + "  workerCount: 5000\n  workerType: standard\n", "workerCount is 5000"),
    "negative": (CUSTOM + "  workerCount: -4\n", "trainingInput.workerCount is -4; it must be"),
    "tier-with-type": (
        "trainingInput: {scaleTier: BASIC, workerCount: 2}\n",
        "trainingInput.workerCount is 2, but scaleTier is 'BASIC'",
    ),
    "gpu-on-retired": (
        CUSTOM.replace("n1-standard-4", "standard_gpu")
        + "  masterConfig: {acceleratorConfig: {type: NVIDIA_TESLA_T4, count: 1}}\n",
        "acceleratorConfig: the machine has 1 NVIDIA_TESLA_T4 already; leave it out",
    ),
    "two-images": (
        CUSTOM + "  masterConfig: {imageUri: a}\n  workerType: n1-standard-4\n  workerCount: 1\n"
        "  workerConfig: {imageUri: b}\n",
        "trainingInput.workerConfig.imageUri is 'b'.*one image.*masterConfig.imageUri is 'a'",
    ),
    "key": (CUSTOM + "  workersCount: 1\n", "trainingInput has no 'workersCount'; did you"),
    "time": (
        CUSTOM + "  scheduling: {maxRunningTime: 1h}\n",
        "maxRunningTime is '1h'; it must be whole",
    ),
}
TF_CONFIG_MISTAKES = {
    "evaluator": (
        '{"cluster": {"chief": ["a:1"], "worker": ["b:1"], "evaluator": ["c:1"]}}',
        r"cluster.evaluator is \['c:1'\]; an evaluator is a task of the job, but never in cluster",
    ),
    "host": ('{"cluster": {"worker": ["a:1", "b"]}}', "cluster.worker: 'b' is not host:port"),
    "key": ('{"cluster": {"worker": ["a:1"]}, "tasks": 1}', "no 'tasks'"),
    "ps-without-worker": (
        '{"cluster": {"chief": ["a:1"], "ps": ["b:1"]}}',
        "the number of cluster.worker is 0.*needs .*worker.*set it to 1",
    ),
    "task": ('{"cluster": {}, "task": "chief"}', "task must be an object"),
}
MISTAKES = {
    f"{spelling}-{name}": mistake
    for spelling, mistakes in (
        ("short", SHORT_MISTAKES),
        ("vertex", VERTEX_MISTAKES),
        ("legacy", LEGACY_MISTAKES),
        ("tf_config", TF_CONFIG_MISTAKES),
    )
    for name, mistake in mistakes.items()
}


@pytest.fixture
def load(tmp_path):
    def load(content):
        path = tmp_path / "cluster.yaml"
        path.write_text(content)
        return load_cluster(path)

    return load


@pytest.mark.parametrize(("content", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_what_is_allowed(load, content, words):
    with pytest.raises(ClusterError, match=words.replace("?", r"\?")):
        load(content)


def test_all_mistakes_are_named_at_once(load):
    with pytest.raises(ClusterError) as error:
        load("wokers: 2\nmachine: n1-standard-5\nspot: often\ntimeout_seconds: -1\n")

    assert len(error.value.problems) == 4
    assert not any("strategy" in problem for problem in error.value.problems)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"[" * 50_000, b"#" * 200_000], ids=len)
def test_files_that_are_not_yaml_are_refused(tmp_path, data):
    path = tmp_path / "cluster.yaml"
    path.write_bytes(data)

    with pytest.raises(ClusterError):
        load_cluster(path)


def random_spec(random: Random) -> ClusterSpec:
    strategy = random.choice(["single", "mirrored", "multi_worker_mirrored", "parameter_server"])
    is_alone = strategy in ("single", "mirrored")
    values = {
        "strategy": strategy,
        "workers": 0 if is_alone else random.randint(1, 6),
        "parameter_servers": random.randint(1, 3) if strategy == "parameter_server" else 0,
        "evaluators": random.randint(0, 1),
        "timeout_seconds": random.randint(1, 10**6),
        "image": random.choice(["", "image:1"]),
        "spot": random.random() < 0.5,
        "restarts": random.choice(["auto", "replica", "whole_job", "never"]),
        "persistent_resource": random.choice(["", "pool-1"]),
        **random_machine(random),
    }
    roles = [
        "chief",
        *(key for key in ("workers", "parameter_servers", "evaluators") if values[key]),
    ]
    values["machines"] = {
        role: random_machine(random) for role in random.sample(roles, random.randint(0, len(roles)))
    }
    return ClusterSpec(**values)


def random_machine(random: Random) -> dict:
    machine = random.choice(sorted(MACHINES - set(BUILT_IN_GPUS)))
    counts = gpu_counts(machine, "NVIDIA_TESLA_V100")
    if not counts or random.random() < 0.5:
        return {"machine": machine}
    accelerator = {"type": "NVIDIA_TESLA_V100", "count": random.choice(counts)}
    return {"machine": machine, "accelerator": accelerator}


def meaning(spec: ClusterSpec) -> list:
    """Return the parts of a cluster that every spelling can express."""
    restarts = [spec.spot, spec.restarts_whole_job, spec.restarts == "never"]
    names = [spec.image, spec.persistent_resource]
    return [spec.strategy, spec.pools(), spec.timeout_seconds, *names, *restarts]


@pytest.mark.parametrize("spelling", ["short", "vertex"])
def test_any_cluster_is_the_same_after_being_written_and_read(spelling):
    write = SPELLINGS[spelling].write
    for seed in range(60):
        spec = random_spec(Random(seed))

        read = parse_cluster(json.loads(json.dumps(write(spec))))

        assert meaning(read.spec) == meaning(spec)
        assert read.spelling == spelling
        assert write(read.spec) == write(spec)
        assert ClusterSpec.from_json(read.spec.to_json()) == read.spec


def test_worker_0_becomes_the_chief_on_vertex_ai_if_there_is_none():
    spec = ClusterSpec(strategy="multi_worker_mirrored", chief=0, workers=3)

    read = parse_cluster(SPELLINGS["vertex"].write(spec)).spec
    assert (read.chief, read.workers) == (1, 2)


def test_snake_case_is_read_as_camel_case(load):
    spec = ClusterSpec(strategy="multi_worker_mirrored", workers=2, spot=True)
    camel = json.dumps(SPELLINGS["vertex"].write(spec))
    snake = camel
    for key in ("workerPoolSpecs", "machineSpec", "machineType", "replicaCount", "containerSpec"):
        snake = snake.replace(key, "".join(f"_{c.lower()}" if c.isupper() else c for c in key))

    assert snake != camel
    assert load(snake).spec == load(camel).spec == spec


def test_a_retired_machine_is_replaced_with_a_warning(load):
    for name, today in RETIRED.items():
        file = load(CUSTOM.replace("n1-standard-4", name))

        assert today.type in MACHINES
        assert file.spec.machine_of("chief") == today
        [warning, *others] = file.warnings
        assert f"masterType: {name} is retired and now {today}" in warning
        assert not any("is retired" in text for text in others)


@pytest.mark.parametrize(
    ("tier", "shape"),
    [
        ("BASIC", "1 chief"),
        ("BASIC_GPU", "1 chief"),
        ("STANDARD_1", "1 chief + 4 worker + 3 ps"),
        ("PREMIUM_1", "1 chief + 19 worker + 11 ps"),
    ],
)
def test_a_scale_tier_becomes_its_cluster(load, tier, shape):
    spec = load(f"trainingInput: {{scaleTier: {tier}}}\n").spec

    assert str(spec) == shape


def test_a_k80_becomes_a_t4(load):
    config = "  masterConfig: {acceleratorConfig: {type: NVIDIA_TESLA_K80, count: 4}}\n"
    file = load(CUSTOM + config)

    assert file.spec.accelerator == Accelerator(type="NVIDIA_TESLA_T4", count=4)
    assert "NVIDIA_TESLA_K80 is retired and now NVIDIA_TESLA_T4" in file.warnings[0]
    assert file.spec.strategy == "mirrored"


def test_idle_gpus_are_named(load):
    file = load(
        PS + "workers: 1\nparameter_servers: 1\naccelerator: {type: NVIDIA_TESLA_T4, count: 2}"
    )

    [warning] = file.warnings
    assert "each worker uses 1 of its 2 NVIDIA_TESLA_T4" in warning


def test_keys_that_are_not_the_clusters_are_ignored_with_a_warning(load):
    file = load(CUSTOM + "  pythonModule: trainer.task\n  args: [--train-steps, '5']\n")

    assert any("pythonModule: ignored" in text for text in file.warnings)
    assert any("--train-steps 5" in text for text in file.warnings)


def test_a_machine_of_another_family_is_accepted_with_a_warning(load):
    file = load("machine: z9-standard-4\n")

    assert "machine is 'z9-standard-4', which is not known" in file.warnings[0]


@pytest.mark.parametrize(
    ("more", "shape", "num_warnings"),
    [
        pytest.param(
            "  parameterServerType: standard\n  parameterServerCount: 0\n", "1 chief", 1, id="0"
        ),
        pytest.param(
            "  workerType: n1-standard-4\n  workerCount: '1'\n", "1 chief + 1 worker", 1, id="text"
        ),
        pytest.param("  evaluatorType: n1-standard-4\n", "1 chief", 2, id="evaluator"),
        pytest.param("  workerType: n1-standard-4\n  workerCount:\n", "1 chief", 2, id="null"),
        pytest.param(
            "  parameterServerType: standard\n  parameterServerConfig: {imageUri: b}\n"
            "  masterConfig: {imageUri: a}\n",
            "1 chief",
            3,
            id="image-of-none",
        ),
    ],
)
def test_only_counted_replicas_exist(load, more, shape, num_warnings):
    file = load(CUSTOM + more)

    assert str(file.spec) == shape
    assert len(file.warnings) == num_warnings, file.warnings


@pytest.mark.parametrize("indent", [None, 2, "\t"], ids=["line", "spaces", "tabs"])
def test_json_is_read_with_any_indentation_and_with_a_byte_order_mark(tmp_path, indent):
    path = tmp_path / "cluster.json"
    values = yaml.safe_load(CUSTOM + "  workerType: n1-standard-4\n  workerCount: 1\n")
    path.write_text(json.dumps(values, indent=indent).replace("\n", "\r\n"), encoding="utf-8-sig")

    assert str(load_cluster(path).spec) == "1 chief + 1 worker"


OLD_FILES = sorted(Path(__file__).with_name("old_cluster_files").glob("*.yaml"))


@pytest.mark.parametrize("path", OLD_FILES, ids=lambda path: path.stem)
def test_the_files_of_old_tutorials_become_the_same_synchronous_clusters(path):
    file = load_cluster(path)

    plan = plan_training("mnist", cluster=file.spec, train={}, image="i", examples_uri="/e")
    assert file.spec.strategy == "multi_worker_mirrored"
    assert [(pool.role, pool.count) for pool in file.spec.pools()] == [("chief", 1), ("worker", 1)]
    gpus = [pool["machine_spec"].get("accelerator_count", 0) for pool in plan.worker_pool_specs]
    assert gpus == ([4, 4] if path.stem == "cifar10-4-gpus" else [0, 0])
    for pool in plan.worker_pool_specs:
        assert "--strategy=multi_worker_mirrored" in pool["container_spec"]["args"]
    has_uncounted = path.stem.startswith("cifar10")
    said = [text.startswith("trainingInput.parameterServerType is") for text in file.warnings]
    assert said.count(True) == has_uncounted
    is_image = "mnist_classification_multiworker@sha256:11547159" in file.spec.image
    assert is_image == (not has_uncounted)


ODD_VALUES = [None, True, -1, 0, 2, 10**30, 3.5, float("nan"), "", "a", "1", b"x", [], ["b"], {}]


def damage(random: Random, values):
    """Return a cluster with one value changed or removed, or one key mistyped."""
    values = json.loads(json.dumps(values))
    node = values
    while True:
        key = random.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if isinstance(node[key], dict | list) and node[key] and random.random() < 0.8:
            node = node[key]
            continue
        if isinstance(node, dict) and random.random() < 0.3:
            del node[key]
        elif isinstance(node, dict) and random.random() < 0.3:
            node[f"{key}s"] = random.choice(ODD_VALUES)
        else:
            node[key] = random.choice(ODD_VALUES)
        return values


def written(spelling: str, spec: ClusterSpec) -> dict:
    """Return the content of a file, for AI Platform one of a kind."""
    if spelling == "legacy":
        gpus = {"acceleratorConfig": {"type": "NVIDIA_TESLA_V100", "count": 1}}
        pool = {"workerType": "n1-standard-8", "workerCount": spec.workers, "workerConfig": gpus}
        scale = {"scaleTier": "CUSTOM", "masterType": spec.machine, "args": ["--strategy=single"]}
        return {"trainingInput": {**scale, **pool, "scheduling": {"maxRunningTime": "3600s"}}}
    if spelling == "tf_config":
        return next(iter(tf_configs(spec, placeholder_hosts(spec)).values()))
    return SPELLINGS[spelling].write(spec)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_any_damaged_file_raises_cluster_error(spelling):
    for seed in range(100):
        random = Random(seed)
        values = damage(random, written(spelling, random_spec(random)))
        with contextlib.suppress(ClusterError):  # any other error is our bug
            assert parse_cluster(values).spec.pools(), values


def shipped(root: Path) -> list[Path]:
    return sorted((root / "configs" / "clusters").glob("*.yaml"))


def golden_pools(path: Path) -> str:
    """Return the request to Vertex AI for the cluster of a shipped file."""
    cluster = load_cluster(path).spec
    plan = plan_training("mnist", cluster=cluster, train={}, image="image:1", examples_uri="/e")
    request = {
        "worker_pool_specs": plan.worker_pool_specs,
        "scheduling": {
            "strategy": plan.scheduling_strategy,
            "timeout": plan.timeout,
            "restart_job_on_worker_restart": plan.restarts_whole_job,
        },
    }
    return json.dumps(request, indent=2) + "\n"


def golden_path(path: Path) -> Path:
    return Path(__file__).parent / "golden" / f"{path.stem}.json"


def test_shipped_files_give_the_golden_pools(pytestconfig):
    files = shipped(pytestconfig.rootpath)

    assert len(files) >= 7
    for path in files:
        accept = (
            f"{path.name}; to accept: python tests/components/plan_training/test_cluster_file.py"
        )
        assert golden_pools(path) == golden_path(path).read_text(), accept


if __name__ == "__main__":
    for path in shipped(Path.cwd()):
        golden_path(path).parent.mkdir(exist_ok=True)
        golden_path(path).write_text(golden_pools(path))
