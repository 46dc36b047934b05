"""`--env NAME`: options of a command from environments/NAME.yaml."""

import json
import re

import pytest

from pipelines.cli import main, parse
from trainer.errors import ConfigError

PROD = """\
on: vertex
project: my-project
location: europe-west4
pipeline_root: gs://bucket/runs
image: europe-docker.pkg.dev/p/r/trainyard:1
service_account: t@my-project.iam.gserviceaccount.com
cluster: big.yaml
set:
  release.approval: required
  train.epochs: 7
"""


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "environments"
    folder.mkdir()
    (folder / "prod.yaml").write_text(PROD)
    (folder / "big.yaml").write_text("strategy: mirrored\nmachine: n1-standard-8\n")
    return tmp_path


def test_a_run_has_the_options_of_its_environment(capsys):
    assert main(["submit", "taxi", "--env", "prod", "--dry-run", "--json"]) == 0
    request = json.loads(capsys.readouterr().out)
    values = request["runtimeConfig"]["parameterValues"]
    assert request["serviceAccount"] == "t@my-project.iam.gserviceaccount.com"
    assert request["runtimeConfig"]["gcsOutputDirectory"] == "gs://bucket/runs"
    assert json.loads(values["release"]) == {"approval": "required"}
    assert json.loads(values["train"])["epochs"] == 7
    assert json.loads(values["cluster"])["machine"] == "n1-standard-8"


def test_options_of_the_command_override_those_of_the_environment():
    words = ["submit", "taxi", "--env", "prod", "--project", "mine", "--set", "train.epochs=3"]
    arguments = parse(words)
    assert (arguments.project, arguments.location) == ("mine", "europe-west4")
    assert arguments.settings[-2:] == ["train.epochs=7", "train.epochs=3"]


def test_a_command_takes_the_options_that_it_has():
    arguments = parse(["runs", "list", "--env=prod", "--limit", "3"])
    assert (arguments.on, arguments.project, arguments.limit) == ("vertex", "my-project", 3)
    assert not hasattr(arguments, "image")


def test_a_command_that_trains_without_settings_says_so(caplog):
    parse(["runs", "list", "--env", "prod"])
    assert not caplog.text
    parse(["schedule", "apply", "--env", "prod"])
    assert "environments/prod.yaml, line 8: set is for runs; this command" in caplog.text


def test_flags_of_the_trainer_stay_at_the_end():
    arguments = parse(["jobs", "submit", "taxi", "--env", "prod", "--", "--steps", "5"])
    assert arguments.flags == ["--steps", "5"]
    assert arguments.image == "europe-docker.pkg.dev/p/r/trainyard:1"


def test_the_environments_of_a_workloads_folder_come_first(repository):
    own = repository / "churn" / "environments"
    own.mkdir(parents=True)
    (own / "prod.yaml").write_text("on: vertex\nproject: own\n")
    (own / "dev.yaml").write_text("data_dir: ../data\npipeline_root: gs://b/r\n")
    for command in (["submit"], ["jobs", "submit"], ["tune"]):
        assert parse([*command, "churn", "--env", "prod"]).project == "own"
        arguments = parse([*command, "churn", "--env", "dev"])
        paths = (arguments.data_dir, arguments.pipeline_root)
        assert paths == ("churn/environments/../data", "gs://b/r")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("prd", "", r"no environments/prd.yaml; did you mean 'prod'\? there are big, dev, prod"),
        ("dev", "on: vertex\nprojct: p", "dev.yaml, line 2: 'projct' is unknown; .*'project'"),
        ("dev", "set: [a]", "dev.yaml, line 1: set is .'a'.; it must hold settings"),
        ("dev", "- a", "dev.yaml must hold keys and values"),
        ("dev", "a: b: c", "dev.yaml: .*line 1"),
        ("dev", "on: laptop", "dev.yaml, line 1: on is 'laptop'; it must be local or vertex"),
        ("dev", "project: {a: b}", "dev.yaml, line 1: project is {'a': 'b'}; it must be a text"),
    ],
    ids=["name", "key", "settings", "list", "yaml", "target", "mapping"],
)
def test_a_mistake_is_named_with_its_place(repository, name, text, message):
    (repository / "environments" / "dev.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        parse(["runs", "list", "--env", name])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("set:\n  train.epoch: 5", "line 2: unknown key 'train.epoch'; did you mean"),
        ("set:\n  train.steps: 9\n  train.batch_size: 0", "line 3: train.batch_size is 0; it"),
        ("set:\n  train:\n    epochs: 5", "line 2: .* a group of settings: write train.NAME"),
        ("set:\n  thresholds.aucc: 0.5", "line 2: .*'thresholds.aucc'; did you mean"),
        ("set:\n  gate.slices: nothing", "line 2: gate.slices has 'nothing'"),
        ("data_dir: nowhere", "line 1: --data-dir .*there is no such folder"),
    ],
    ids=["unknown", "value", "group", "metric", "gate", "option"],
)
def test_a_wrong_setting_is_named_with_its_place(repository, capsys, text, message):
    (repository / "environments" / "dev.yaml").write_text(text)
    assert main(["plan", "taxi", "--env", "dev"]) == 2
    assert re.match(f"trainyard: environments/dev.yaml, {message}", capsys.readouterr().err)


def test_without_a_file_that_counts_none_exists(repository, capsys):
    for path in (repository / "environments").glob("*.yaml"):
        path.rename(path.with_suffix(".yml"))
    assert main(["plan", "taxi", "--env", "prod"]) == 2
    assert "no environments/prod.yaml; none exists" in capsys.readouterr().err


def test_a_wrong_setting_of_the_command_is_not_one_of_the_environment(repository, capsys):
    (repository / "environments" / "dev.yaml").write_text("set: {train.epochs: 5}")
    command = ["plan", "taxi", "--env", "dev", "--set", "train.epochs=0"]
    assert main(command) == 2
    assert capsys.readouterr().err.startswith("trainyard: --set train.epochs=0: ")
