import json
from pathlib import Path

import pytest
from google.auth.exceptions import DefaultCredentialsError
from kfp import compiler, dsl

from components.shared.vertex.api import EMULATOR_VARIABLE
from pipelines.cli import main
from pipelines.command.running import execution
from pipelines.config.built_in import mnist
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import with_settings
from pipelines.package.digests import with_digests
from pipelines.package.spec import (
    check_parameters,
    read_package,
    read_package_file,
    with_image,
)
from pipelines.places.target import local_target, vertex_target
from pipelines.runs.request import new_run_name, run_request, warn_of_readable_address
from pipelines.runs.submit import (
    check_run_name,
    check_source,
    config_of,
    is_package,
    parameters_of,
    plan_run,
    read_package_of,
    run_prefix,
)
from tests.support.data.packages import package
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

ACCOUNT = "trainer@demo.iam.gserviceaccount.com"


@pytest.fixture
def own(tmp_path):
    """A package with the parameters of this repository's pipeline and the defaults of mnist."""
    kinds = {str: "STRING", int: "NUMBER_INTEGER", bool: "BOOLEAN"}
    values = parameters_of(mnist(), local_target(tmp_path))
    return package(
        {name: {"parameterType": kinds[type(v)], "defaultValue": v} for name, v in values.items()},
        image="trainyard:src-1",
    )


@pytest.fixture
def vertex(tmp_path):
    return vertex_target(tmp_path, project="p", location=None, pipeline_root="gs://b/r")


def plan(package_, target, **arguments):
    options = {"run": "r-1", "config": None, **arguments}
    return plan_run(package_, target=target, **options)


def values_of(submission):
    return submission.request["runtimeConfig"]["parameterValues"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"counts": 1}, r"^counts: .*tiny.yaml has no .*count"),
        ({"count": "three"}, "count is 'three'; it must be a whole number"),
        ({"count": 1.5}, "count is 1.5; it must be a whole number"),
        ({"count": True}, "count is True"),
        ({"share": "x"}, "share is 'x'; it must be a number"),
        ({"is_dry": "yes"}, "is_dry is 'yes'; it must be true or false"),
        ({"names": "a"}, r"names is 'a'; it must be a list, as \[a, b\]"),
        ({}, r"parameter project \(STRING\) of tiny.yaml has no default"),
    ],
)
def test_invalid_parameter_is_reported(values, message):
    with pytest.raises(ConfigError, match=message):
        check_parameters(package(), values)
    check_parameters(package(), {"project": "p", "count": 3.0, "names": [], "share": 1})


def test_kubernetes_settings_of_a_package_are_refused(tmp_path):
    @dsl.component(base_image="python:3.11")
    def step(folder: str):
        pass

    config = dsl.PipelineConfig(workspace=dsl.WorkspaceConfig(size="1Gi"))

    @dsl.pipeline(name="with-workspace", pipeline_config=config)
    def with_workspace():
        step(folder=dsl.WORKSPACE_PATH_PLACEHOLDER)

    compiler.Compiler().compile(with_workspace, str(tmp_path / "w.yaml"))
    with pytest.raises(ConfigError, match=r"w.yaml.*kubernetes.*pipeline \(workspace\)"):
        read_package_file(tmp_path / "w.yaml")
    secrets = {"kubernetes": {"deploymentSpec": {"executors": {"exec-a": {"secretAsEnv": []}}}}}
    text = f"{json.dumps(package().spec)}\n---\n{json.dumps({'platforms': secrets})}"
    with pytest.raises(ConfigError, match=r"exec-a \(secretAsEnv\)"):
        read_package(text, source="tiny.yaml")


@pytest.mark.parametrize(
    ("image", "is_allowed"),
    [
        (f"us-docker.pkg.dev/p/r/i@sha256:{'0' * 64}", True),
        ("localhost:5000/i", True),
        ("trainyard:src-1", False),
        ("library/python", False),
        ("", False),
    ],
)
def test_vertex_must_be_able_to_pull_every_image(image, is_allowed):
    if is_allowed:
        with_digests(package(image=image))
    else:
        shown = image or '"" of exec-a'
        with pytest.raises(ConfigError, match=rf"image {shown} has no registry .*give --image"):
            with_digests(package(image=image))


def test_image_replaces_the_source_image(own):
    changed = with_image(own, "r.example/i:2")

    assert "trainyard:src" not in changed.text
    with pytest.raises(ConfigError, match=r"--image.*compile it again"):
        with_image(changed, "r.example/i:3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "cannot be read: it is not YAML"),
        ("a: 1", "is not a compiled pipeline"),
        ("", "is not a compiled pipeline"),
    ],
)
def test_invalid_package_is_refused(text, message, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=f"{path} {message}"):
        read_package_of(str(path))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no/p.yaml", "cannot read the package no/p.yaml: No such file"),
        ("mnits", r"unknown workload 'mnits'; did you mean 'mnist'\?"),
        ("https://x.org/p", "not a package's address"),
    ],
)
def test_missing_source_is_reported(source, message):
    check = read_package_of if is_package(source) else check_source
    with pytest.raises(ConfigError, match=message):
        check(source)


def test_settings_override_the_packages_defaults(own, tmp_path):
    settings = ["train.epochs=7", "cluster.spot=true", "labels.team=vision"]
    config = config_of(own, settings=settings, cluster=None)

    submission = plan(own, local_target(tmp_path), config=config)

    values = values_of(submission)
    assert json.loads(values["train"]) == {"epochs": 7, "batch_size": 128}
    assert json.loads(values["cluster"])["spot"] is True
    assert submission.request["labels"] == {"team": "vision", "trainyard_run": "r-1"}
    assert "serviceAccount" not in submission.request
    assert run_prefix(own) == "mnist"


def test_what_a_run_on_vertex_can_be_told_reaches_the_request(own, vertex):
    settings = [
        f"service_account={ACCOUNT}",
        "network=projects/12/global/networks/vpc",
        "tensorboard=projects/p/locations/us-central1/tensorboards/5",
        "cluster.timeout_seconds=600",
        "cluster.accelerator={type: NVIDIA_TESLA_T4, count: 1}",
    ]
    image = with_image(own, "r.example/i:2")
    config = config_of(image, settings=settings, cluster=None)

    with pytest.raises(ConfigError, match="image trainyard:src-1 has no registry"):
        plan(own, vertex, config=config)
    request = plan(image, vertex, config=config).request

    values = request["runtimeConfig"]["parameterValues"]
    assert request["serviceAccount"] == values["service_account"] == ACCOUNT
    assert values["network"].endswith("/vpc")
    assert values["tensorboard"].endswith("/5")
    cluster = json.loads(values["cluster"])
    assert cluster["timeout_seconds"] == 600
    assert cluster["accelerator"]["type"] == "NVIDIA_TESLA_T4"


def test_package_older_than_the_source_is_reported(own, tmp_path):
    target = local_target(tmp_path)
    config = config_of(own, settings=[], cluster=None)
    del own.definitions["serving"]
    with pytest.raises(ConfigError, match=r"serving: .* has no such parameter.*compile it again"):
        plan(own, target, config=config)


def test_pipeline_of_another_repository_can_be_submitted(vertex):
    other = package()
    settings = ["count=3", "names=[a]", "note=3", "labels.team=vision"]

    assert config_of(other, settings=settings, cluster=None) is None
    submission = plan(other, vertex, settings=settings)

    assert values_of(submission) == {"project": "p", "count": 3, "names": ["a"], "note": "3"}
    assert submission.request["labels"]["team"] == "vision"
    with pytest.raises(ConfigError, match="no parameter for a cluster"):
        config_of(other, settings=[], cluster=Path("c.yaml"))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("service_account=me@x.org", "service_account is 'me@x.org'"),
        ("network=default", r"network is 'default'.*number"),
        ("tensorboard=5", "tensorboard is '5'"),
        ("on_failure_url=hooks.example/x", "must be a web address"),
        pytest.param(
            "on_failure_url=ftp://h/x",
            "url has another form; it must be a web",
            id="webhook-scheme",
        ),
        ("labels.Team=a", "labels.Team: the name"),
        ("labels.team=A", "labels.team is 'A'"),
        ("labels.trainyard_run=x", "is the run's own"),
    ],
)
def test_a_setting_that_vertex_would_refuse_is_named(setting, message):
    with pytest.raises(ConfigError, match=message):
        with_settings(mnist(), [setting])


def test_tensorboard_needs_the_account_of_the_run(tmp_path, capsys):
    setting = "tensorboard=projects/p/locations/l/tensorboards/5"
    where = ["--on", "vertex", "--project", "p", "--pipeline-root", "gs://b/r"]
    image = ["--image", "us-docker.pkg.dev/p/r/i:1", "--state-dir", str(tmp_path)]
    arguments = ["submit", "mnist", "--dry-run", "--json", "--set", setting, *where, *image]

    assert main(arguments) == 2
    assert "tensorboard needs service_account" in capsys.readouterr().err
    assert main([*arguments, "--set", f"service_account={ACCOUNT}"]) == 0

    request = json.loads(capsys.readouterr().out)
    parameters = request["runtimeConfig"]["parameterValues"]
    assert request["serviceAccount"] == parameters["service_account"] == ACCOUNT


def test_a_run_is_known_by_its_parameters():
    config = with_settings(mnist(), ["train.epochs=4", "cluster.spot=true", "max_examples=9"])

    assert RunConfig.from_parameters({**config.parameters(), "max_examples": 9.0}) == config


def test_no_cache_leaves_the_package_unchanged():
    request = run_request(
        package(), run="r", pipeline_root="gs://b", parameters={}, use_cache=False
    )

    assert request["pipelineSpec"]["root"]["dag"]["tasks"]["a"]["cachingOptions"] == {
        "enableCache": False
    }
    assert "cachingOptions" not in package().spec["root"]["dag"]["tasks"]["a"]


@pytest.mark.parametrize(
    ("is_terminal", "answer", "expected"),
    [(True, "y", True), (True, "", False), (False, "y", False)],
)
def test_interrupted_run_is_cancelled_only_after_a_yes_at_a_terminal(
    monkeypatch, tmp_path, is_terminal, answer, expected
):
    monkeypatch.setattr(execution.sys.stdin, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)

    target = local_target(tmp_path)
    assert (
        execution.confirm_cancel("r-1", state="continues", target=target, service=None) is expected
    )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["runs", "list"], id="rest"),
        pytest.param(
            ["upload", "mnist", "--repository", "https://us-kfp.pkg.dev/p/r"], id="registry"
        ),
    ],
)
def test_missing_login_is_reported_with_the_remedy(arguments, monkeypatch, capsys):
    def no_login(**_):
        raise DefaultCredentialsError("no credentials")

    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)
    monkeypatch.setattr("google.auth.default", no_login)
    place = {"runs": ["--on", "vertex", "--project", "p"], "upload": ["--image", "r.example/i:1"]}

    assert main([*arguments, *place[arguments[0]]]) == 1

    assert "gcloud auth application-default login" in capsys.readouterr().err


def test_the_name_of_a_run_fits_into_a_label():
    name = new_run_name("a" * 63)
    check_run_name(name)
    assert len(name) == 63
    with pytest.raises(ConfigError, match="is not allowed; it must match"):
        check_run_name("a" * 64)


@pytest.mark.parametrize(
    ("address", "is_warned_of"),
    [
        ("https://hooks.example/services/SECRET", True),
        ("env:HOOK", False),
        ("projects/p/secrets/hook/versions/latest", False),
    ],
)
def test_an_address_that_is_stored_readably_is_a_warning(address, is_warned_of, caplog):
    values = with_settings(mnist(), [f"on_failure_url={address}"]).parameters()

    warn_of_readable_address({"runtimeConfig": {"parameterValues": values}})

    assert ("https://hooks.example/… of on_failure_url is stored" in caplog.text) is is_warned_of
    assert "SECRET" not in caplog.text
