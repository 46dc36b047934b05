import argparse
import json
from pathlib import Path

import pytest

from components.plan_training.plan import plan_training
from components.plan_training.shape import ClusterSpec
from pipelines.cli import main
from pipelines.command.parser import seconds
from pipelines.config.cluster_files import read_cluster, warn_of_local_limits
from pipelines.jobs.examples import Examples, examples_of
from pipelines.jobs.request import job_request, with_flags
from pipelines.places.target import local_target, vertex_target
from pipelines.projects.runs import find_run
from trainer.errors import ConfigError
from vertex_local.api.protos import parse
from vertex_local.pipelines.gcpc.requests import LauncherCall, create_job

pytestmark = pytest.mark.fast

PLACE = {
    "service_account": "t@my-project.iam.gserviceaccount.com",
    "network": "projects/1/global/networks/n",
    "tensorboard": "projects/1/locations/l/tensorboards/2",
}
WHERE = {"examples_uri": "/examples", "output_uri": "/out"}


def sent_by_the_pipeline(config):
    """Return the request that CustomTrainingJobOp sends for a plan: its template, filled in."""
    from google_cloud_pipeline_components.v1.custom_job import component

    spec = component.custom_training_job.component_spec
    args = spec.implementation.container.args
    payload = args[args.index("--payload") + 1]
    plan = plan_training(
        config.workload,
        cluster=config.cluster,
        train=config.train.given(),
        image="i",
        examples_uri="/examples",
    )
    given = {
        "display_name": "n",
        "worker_pool_specs": plan.worker_pool_specs,
        "base_output_directory": "/out",
        "timeout": plan.timeout,
        "restart_job_on_worker_restart": plan.restarts_whole_job,
        "strategy": plan.scheduling_strategy,
        "persistent_resource_id": "",
        **PLACE,
    }
    for name, known in spec.inputs.items():
        value = given.get(name, known.default)
        text = value if isinstance(value, str) else json.dumps(value)
        payload = payload.replace(f"{{{{$.inputs.parameters['{name}']}}}}", text)
    launch = LauncherCall(
        type="CustomJob", project="p", location="l", payload=payload, gcp_resources="/tmp/r"
    )
    return create_job(launch)


@pytest.mark.parametrize(
    "name", ["mnist_parameter_server", "mnist_multi_worker_mirrored", "spot_gpus"]
)
def test_job_request_equals_the_pipelines(name):
    cluster = read_cluster(Path(f"configs/clusters/{name}.yaml"))
    config = find_run("mnist").replace(cluster=cluster, labels={"team": "a"}, **PLACE)
    piped = sent_by_the_pipeline(config)
    ours = job_request(config, name="n", image="i", **WHERE)

    assert piped.method == "POST"
    theirs = {**piped.body, "labels": {"team": "a"}}
    assert parse("CustomJob", ours) == parse("CustomJob", theirs)


def test_job_can_disable_restarts():
    config = find_run("mnist")
    config = config.replace(cluster=config.cluster.replace(restarts="never"))
    request = job_request(config, name="n", image="i", **WHERE)

    assert parse("CustomJob", request)["jobSpec"]["scheduling"]["disableRetries"] is True


@pytest.mark.parametrize(
    ("examples", "resource"), [("gs://b/e", "pool-1"), ("/examples", "")], ids=["vertex", "here"]
)
def test_a_job_on_vertex_ai_uses_a_persistent_resource(examples, resource, caplog):
    config = find_run("mnist")
    cluster = config.cluster.replace(persistent_resource="pool-1")
    config = config.replace(cluster=cluster)
    job = job_request(config, name="n", image="i", examples_uri=examples, output_uri="/out")
    warn_of_local_limits(config.cluster)

    assert parse("CustomJob", job)["jobSpec"].get("persistentResourceId", "") == resource
    assert "pool-1 is one of Vertex AI; on this machine it has no effect" in caplog.text


@pytest.mark.parametrize("workload", ["mnist", "taxi", "cifar10"])
def test_every_job_has_a_timeout(workload):
    request = job_request(find_run(workload), name="n", image="i", **WHERE)

    assert int(request["jobSpec"]["scheduling"]["timeout"].removesuffix("s")) > 0


@pytest.mark.parametrize(
    ("flags", "train"),
    [
        pytest.param([], {"epochs": 2, "batch_size": 128}, id="none"),
        pytest.param(["--epochs=5"], {"epochs": 5, "batch_size": 128}, id="one-changed"),
        pytest.param(["--steps", "9"], {"steps": 9, "batch_size": 128}, id="steps-not-epochs"),
        pytest.param(
            ["--fresh", "--batch-size", "128"],
            {"epochs": 2, "batch_size": 128, "fresh": True},
            id="as-by-default",
        ),
    ],
)
def test_flags_after_dashes_override_settings(flags, train):
    assert with_flags(find_run("mnist"), flags).train.given() == train


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["--batch-size=x"], "--batch-size is 'x'.*a whole number from 1"),
        (["--workload=taxi"], "--workload after --"),
        (["--output-dir=/x"], "--output-dir after --"),
        (["--steps=1", "--epochs=1"], "cannot both be given"),
    ],
)
def test_invalid_flag_is_one_line(flags, message):
    with pytest.raises(ConfigError, match=message) as error:
        with_flags(find_run("mnist"), flags)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200)]
)
def test_a_time(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "2w", "h"])
def test_invalid_duration_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not allowed; give a whole number"):
        seconds(text)


def test_examples_are_prepared_once_for_each_setting(tmp_path):
    def examples(**settings: object) -> Examples:
        config = find_run("taxi").replace(**settings)
        return examples_of(config, local_target(tmp_path), examples_dir=None)

    first = examples()
    assert first.request["workload"] == "taxi"
    Path(first.uri).mkdir(parents=True)
    assert examples().request, "it has no manifest"
    Path(first.uri, "manifest.json").write_text("{}")
    assert examples() == Examples(first.uri)
    assert examples(max_examples=100).uri != first.uri


@pytest.mark.parametrize(
    ("on", "given", "message"),
    [
        ("vertex", None, "needs --examples-dir gs://"),
        ("vertex", "/folder", "gs://BUCKET/FOLDER"),
        ("local", "gs://bucket/folder", "buckets/bucket/folder has no manifest.json"),
        ("local", "/no/such", "no manifest.json.*python -m components.prepare_examples"),
    ],
)
def test_examples_that_a_job_cannot_read_are_refused(tmp_path, on, given, message):
    bucket = {"project": "p", "location": None, "pipeline_root": "gs://b"}
    target = local_target(tmp_path) if on == "local" else vertex_target(tmp_path, **bucket)

    with pytest.raises(ConfigError, match=message):
        examples_of(find_run("mnist"), target, examples_dir=given)


@pytest.mark.parametrize(("workers", "is_warned"), [(2, False), (3, True)])
def test_more_workers_than_cores_is_a_warning(monkeypatch, caplog, workers, is_warned):
    monkeypatch.setattr("pipelines.config.cluster_files.machine_cores", lambda: 2)
    shape = {"strategy": "parameter_server", "workers": workers, "parameter_servers": 1}
    warn_of_local_limits(ClusterSpec(**shape))

    assert ("3 replicas compute on the 2 cores of this machine" in caplog.text) is is_warned


OLD_FILES = sorted(
    (Path(__file__).parents[2] / "components/plan_training/old_cluster_files").glob("*.yaml")
)


@pytest.mark.parametrize(
    "command", [["jobs", "submit"], ["submit", "--json"]], ids=["job", "pipeline"]
)
@pytest.mark.parametrize("file", OLD_FILES, ids=lambda path: path.stem)
def test_old_cluster_file_is_accepted_by_jobs_and_pipelines(file, command, tmp_path, capsys):
    where = ["--cluster", str(file), "--state-dir", str(tmp_path)]
    assert main([*command, "mnist", "--dry-run", *where]) == 0

    sent = json.loads(capsys.readouterr().out)
    if "jobs" not in command:
        cluster = json.loads(sent["runtimeConfig"]["parameterValues"]["cluster"])
        assert (cluster["strategy"], cluster["workers"]) == ("multi_worker_mirrored", 1)
        assert "parameter_servers" not in cluster
    else:
        pools = sent["jobSpec"]["workerPoolSpecs"]
        assert [pool["replicaCount"] for pool in pools] == ["1", "1"]
