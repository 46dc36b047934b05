"""`--version`, and suggestions for mistyped words."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from pipelines import cli
from vertex_local import cli as service_cli

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("main", "first", "packages"),
    [
        (cli.main, "trainyard", ("kfp", "tensorflow", "google-cloud-aiplatform")),
        (service_cli.main, "vertex-local", ("kfp", "tensorflow")),
    ],
    ids=["trainyard", "vertex-local"],
)
def test_the_versions_are_printed(capsys, main, first, packages):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{first} {version('trainyard')}"
    assert {f"  {name} {version(name)}" for name in packages} <= set(lines)


@pytest.mark.parametrize("module", ["pipelines.cli", "vertex_local.cli"])
def test_version_option_does_not_import_tensorflow(module):
    code = f"""
import sys
from {module} import main
try:
    main(["--version"])
finally:
    assert not {{"tensorflow", "kfp", "apache_beam"}} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


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
        ("run mnits", "'mnist'"),
        ("submit mnits", "'mnist'"),
        ("runs shwo r", "'show'"),
        ("schedule aply", "'apply'"),
        ("endpoints undeply m@1", "'undeploy'"),
        ("run mnist --keep-endpont", "'--keep-endpoint'"),
        ("run mnist --on vertx", "'vertex'"),
        ("runs list --state-dri x", "'--state-dir'"),
        ("run mnist --set train.epoch=1", "'train.epochs'"),
    ],
)
def test_mistyped_words_get_a_suggestion(capsys, line, meant):
    try:
        code = cli.main(line.split())
    except SystemExit as ended:
        code = ended.code

    assert code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err
