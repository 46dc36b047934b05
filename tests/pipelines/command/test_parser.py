"""`--version`, and suggestions for mistyped words."""

import re
from importlib.metadata import version

import pytest

from pipelines import cli

pytestmark = pytest.mark.fast


def test_the_versions_are_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])

    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"trainyard {version('trainyard-pipelines')}"
    packages = ("kfp", "tensorflow", "google-cloud-aiplatform")
    assert {f"  {name} {version(name)}" for name in packages} <= set(lines)


@pytest.mark.parametrize("name", [name for name, *_ in cli.COMMANDS])
def test_every_command_has_a_help_text(capsys, name):
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])

    assert ended.value.code == 0
    assert f"usage: trainyard {name} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("modles list", "'models'"),
        ("rnu mnist", "'run'"),
        ("run mnits", "'mnist'"),
        ("submit mnits", "'mnist'"),
        ("runs shwo r", "'show'"),
        ("schedule aply", "'apply'"),
        ("step latest evalute", "'evaluate'"),
        ("endpoints undeply m@1", "'undeploy'"),
        ("run mnist --keep-endpont", "'--keep-endpoint'"),
        ("run mnist --on vertx", "'vertex'"),
        ("runs list --state-dri x", "'--state-dir'"),
        ("run mnist --set train.epoch=1", "'train.epochs'"),
        ("run mnist --set epochs=1", "'train.epochs'"),
        ("jobs submit mnist -- --step 1", "'--steps'"),
        ("run mnist --set batchsize=1", "'train.batch_size' or 'train.part_size'"),
    ],
)
def test_mistyped_words_get_a_suggestion(capsys, line, meant):
    try:
        code = cli.main(line.split())
    except SystemExit as ended:
        code = ended.code

    assert code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_a_setting_that_is_given_as_an_option_is_told_the_form(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "mnist", "--epochs", "3"])
    assert "a setting is --set KEY=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mnist --epochs 1", "trainyard jobs submit mnist -- --epochs 1; a setting is --set"),
        ("mnist --folow", "did you mean '--follow'?"),
    ],
)
def test_flags_of_the_trainer_are_told_to_follow_two_dashes(capsys, line, said):
    with pytest.raises(SystemExit):
        cli.main(["jobs", "submit", *line.split()])
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("check chrun", "churn"),
        ("run mnist --cluster confgs/singel.yaml", "configs/single.yaml"),
        ("new x --label y --table customer.csv", "customers.csv"),
        ("submit configs/singel.yaml", "configs/single.yaml"),
        ("schedule apply confgs", "configs"),
        ("jobs submit mnist --examples-dir confgs", "configs"),
        ("endpoints predict m --instances customer.csv", "customers.csv"),
        ("predict ./chrun --input x --output y", "churn"),
    ],
)
def test_mistyped_files_get_a_suggestion(capsys, tmp_path, monkeypatch, line, meant):
    monkeypatch.chdir(tmp_path)
    for name in ("churn/workload.py", "configs/single.yaml", "customers.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert cli.main(line.split()) == 2
    assert re.search(f"did you mean '?[^ ]*{meant}'?\\?", capsys.readouterr().err)
