"""The image of a project: its name and its Dockerfile; no engine is needed."""

import re

import pytest

from pipelines.cli import main
from pipelines.package.image import default_image, dockerfile, image_of, is_of_this_source

pytestmark = pytest.mark.fast


@pytest.fixture
def churn(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    folder = tmp_path / "My churn"
    folder.mkdir()
    (folder / "workload.py").write_text("raise SystemExit('it is imported')\n")
    return folder


def name_of(folder, capsys, *options):
    assert main(["image", "--project", str(folder), *options]) == 0
    return capsys.readouterr().out.strip()


def test_the_name_has_the_digests_of_both_sources(churn, capsys):
    name = name_of(churn, capsys)
    assert re.fullmatch(re.escape(default_image()) + r"-my-churn-[0-9a-f]{12}", name)
    gpu = name_of(churn, capsys, "--accelerator", "gpu", "--repository", "eu-docker.pkg.dev/p/r/i")
    assert re.fullmatch(r"eu-docker\.pkg\.dev/p/r/i:src-\w{12}-gpu-my-churn-[0-9a-f]{12}", gpu)
    assert is_of_this_source(name)
    assert not is_of_this_source("trainyard:src-000000000000")
    (churn / "README.md").write_text("words")
    assert name_of(churn, capsys) == name
    (churn / "requirements.txt").write_text("lightgbm\n")
    assert name_of(churn, capsys) != name


def test_the_image_of_a_workload_follows_from_its_reference():
    assert image_of("mnist") == image_of("package.module") == default_image()
    for reference in ("churn-0123456789ab", "/state/code/churn-0123456789ab"):
        assert image_of(reference) == f"{default_image()}-churn-0123456789ab"


@pytest.fixture
def fake_docker(tmp_path, monkeypatch):
    """A `docker` that keeps its arguments and the Dockerfile."""
    folder, kept = tmp_path / "bin", tmp_path / "kept"
    folder.mkdir()
    kept.mkdir()
    script = f'#!/bin/sh\nprintf "%s\\n" "$@" > {kept}/words\nfor last; do :; done\n'
    script += f'cp -r "$last" {kept}/context\n'
    (folder / "docker").write_text(script)
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return kept


def test_build_gives_docker_the_code_and_its_dockerfile(churn, capsys, fake_docker):
    (churn / "requirements.txt").write_text("lightgbm\n")
    (churn / ".env").write_text("SECRET=1")
    name = name_of(churn, capsys, "--build")
    reference = name.removeprefix(f"{default_image()}-")
    words = (fake_docker / "words").read_text().split("\n")
    assert words[:3] == ["build", "--tag", name]
    context = fake_docker / "context"
    found = sorted(path.relative_to(context).as_posix() for path in context.rglob("*"))
    assert found == ["Dockerfile", "workload", "workload/requirements.txt", "workload/workload.py"]
    text = (context / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0] == f"FROM {default_image()}"
    assert "pip freeze --all > /tmp/constraints.txt" in text
    assert re.search(
        r"pip install .*--constraint /tmp/constraints.txt .*--requirement \S+/requirements.txt",
        text.replace("\\\n", ""),
    )
    assert f"COPY workload /opt/trainyard/workloads/{reference}" in lines
    assert lines[-1] == "USER ${RUN_AS}"
    assert text.index("pip install") < text.index("COPY workload /opt")


def test_without_requirements_nothing_is_installed(churn, tmp_path):
    from pipelines.projects.project import Project, take_snapshot

    snapshot = take_snapshot(Project(churn), tmp_path / "state")
    assert "pip" not in dockerfile(snapshot, base="b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--build"], "--build needs --project"),
        (["--project", "mnist"], "not a folder with a workload.py"),
        (["--project", "nowhere/"], "there is no folder"),
    ],
)
def test_wrong_options_are_named(options, message, capsys):
    assert main(["image", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_failed_build_is_an_error(churn, capsys, fake_docker, tmp_path):
    (tmp_path / "bin/docker").write_text("#!/bin/sh\nexit 3\n")
    assert main(["image", "--project", str(churn), "--build"]) == 2
    assert "exit code 3" in capsys.readouterr().err
