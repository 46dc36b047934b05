import os
import sys
import time
from pathlib import Path

import pytest
from kfp import dsl

from vertex_local.errors import ApiError
from vertex_local.pipelines import resource as pipelines
from vertex_local.pipelines import step_image
from vertex_local.pipelines.step_image import StepImage
from vertex_local.processes.environments import store
from vertex_local.processes.environments.commands import Step, own_kfp
from vertex_local.processes.environments.layer import Interpreter
from vertex_local.processes.environments.store import COMPLETE, Recipe, building

pytestmark = pytest.mark.fast

STEP = ["sh", "-ec", "the step"]
GOOGLES = "us-docker.pkg.dev/vertex-ai"
HEAD = """
if ! [ -x "$(command -v pip)" ]; then
    python3 -m ensurepip || python3 -m ensurepip --user || apt-get install python3-pip
fi

PIP_DISABLE_PIP_VERSION_CHECK=1"""
PIP = "python3 -m pip install --quiet --no-warn-script-location"
NO_DEPS = "'--no-deps' 'typing-extensions>=3.7.4,<5; python_version<\"3.9\"'"
INDEX = "--index-url https://i/simple --trusted-host https://i/simple"
# As these versions of kfp compile packages_to_install=["pandas==1.5.3"].
COMPILED = {
    "2.0.1": f"{PIP} {INDEX} 'pandas==1.5.3' 'kfp==2.0.1'",
    "2.14.6": f"{PIP} 'pandas==1.5.3'  &&  {PIP} 'kfp==2.14.6' {NO_DEPS}",
}


@pytest.mark.parametrize("version", COMPILED)
def test_the_installation_of_every_kfp_version_is_found(version):
    script = f'{HEAD} {COMPILED[version]} && "$0" "$@"\n'
    step = Step.of(["sh", "-c", script, *STEP])
    assert (step, step.needs_packages) == (Step(tuple(STEP), script), True)


def report() -> str:
    return ""


@pytest.mark.filterwarnings("ignore:The default base_image:FutureWarning")
@pytest.mark.parametrize(
    ("options", "has_kfp", "needs_packages"),
    [
        ({}, True, False),
        ({"use_venv": True}, True, False),
        ({"install_kfp_package": False}, False, False),
        ({"pip_index_urls": ["https://i/simple"], "pip_trusted_hosts": []}, True, False),
        ({"packages_to_install": ["kfp==2.0.1"]}, False, True),
        ({"packages_to_install": [own_kfp()]}, True, False),
        ({"packages_to_install": ["a~=1.5", "b[x]==3.20.*", "c!=1.0,>=0"]}, True, True),
        ({"packages_to_install": ["a>=2; python_version > '3'"], "use_venv": True}, True, True),
        ({"packages_to_install": ["git+https://token@h/x#egg=y"]}, True, True),
        ({"kfp_package_path": "/tmp/kfp.whl"}, False, True),
    ],
    ids=str,
)
def test_the_installation_of_the_installed_kfp_is_found(options, has_kfp, needs_packages):
    container = dsl.component(report, **options).component_spec.implementation.container
    step = Step.of(container.command)
    assert (step.has_kfp, step.needs_packages) == (has_kfp, needs_packages)
    assert step.command[:2] == ("sh", "-ec")


@pytest.mark.parametrize(
    "script",
    [
        'python3 -m pip install \'pandas\' || true; "$0" "$@"',
        'python3 -m pip install \'pandas\' && rm -rf x && "$0" "$@"',
        'python3 -m pip install $PACKAGE && "$0" "$@"',
        'python3 -m pip install --target /x \'pandas\' && "$0" "$@"',
        'python3 -m pip install \'pandas\' > log && "$0" "$@"',
        "python3 -m pip install 'pandas'",
        'pip install pandas && "$0" "$@"',
        '"$0" "$@"',
        "",
    ],
)
def test_other_scripts_are_run_by_the_shell(script):
    command = ["sh", "-c", script, *STEP]
    assert Step.of(command) == Step(tuple(command))


def prefix_of(script: str, python: str = sys.executable, *, has_kfp: bool = True) -> Path:
    return Recipe(python=Interpreter(python, "python3"), script=script, has_kfp=has_kfp).prefix


def test_the_place_depends_on_the_script_python_kfp_and_local_files(tmp_path):
    wheel = tmp_path / "fares.whl"
    wheel.write_text("one")
    scripts = ["install a", f"install '{wheel}'", f"install '{tmp_path}'"]
    keys = {*map(prefix_of, scripts), prefix_of("install a", has_kfp=False)}
    keys |= {prefix_of("install a", __file__)}
    wheel.write_text("two, longer")
    assert len(keys | set(map(prefix_of, scripts))) == 7


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """Return the place of an environment that does not exist."""
    monkeypatch.setenv("VERTEX_LOCAL_ENVIRONMENTS", str(tmp_path / "environments"))
    return prefix_of("pip install fares")


def cannot_wait() -> None:
    raise TimeoutError("another step builds it")


def test_of_two_steps_one_builds_an_environment(prefix):
    with building(prefix, wait=cannot_wait) as is_new:
        assert is_new
        prefix.mkdir()
        with pytest.raises(TimeoutError), building(prefix, wait=cannot_wait):
            pass
    with building(prefix, wait=cannot_wait) as is_new:
        assert not is_new
    assert prefix.parent.stat().st_mode & 0o777 == 0o700


def fail(prefix: Path) -> None:
    prefix.mkdir()  # there is nothing of the killed build
    raise ValueError("no such package")


def test_a_failed_or_killed_build_leaves_nothing(prefix):
    prefix.mkdir(parents=True)
    (prefix / "of a killed build").touch()
    with pytest.raises(ValueError, match="no such"), building(prefix, wait=cannot_wait):
        fail(prefix)
    assert not prefix.exists()


def test_unused_environments_are_removed_complete_or_not(prefix):
    for name, days in {"unused": 31, "killed": 31, "used": 29}.items():
        folder, lock = prefix.parent / name, prefix.parent / f"{name}.lock"
        folder.mkdir(parents=True)
        if name != "killed":
            (folder / COMPLETE).touch()
        lock.touch()
        moment = time.time() - days * 24 * 3600
        os.utime(lock, (moment, moment))
    used = prefix.with_name("used")
    with building(used, wait=cannot_wait), building(prefix, wait=cannot_wait):
        prefix.mkdir()
    assert {path.stem for path in prefix.parent.iterdir()} == {"used", prefix.name}
    assert used.with_suffix(".lock").stat().st_mtime > time.time() - 60, "it was used now"


@pytest.mark.parametrize(
    ("name", "minor", "package"),
    [
        ("docker.io/library/python:3.9.18-slim-bookworm", "9", ""),
        (
            "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-15.py310:latest",
            "10",
            "tensorflow==2.15.*",
        ),
        ("europe-docker.pkg.dev/vertex-ai/prediction/tf2-gpu.2-8:latest", "", "tensorflow==2.8.*"),
        (f"{GOOGLES}/training/pytorch-gpu.2-4.py310", "10", "torch==2.4.*"),
        (
            f"{GOOGLES}/training/scikit-learn-cpu.0-23",
            "",
            "scikit-learn==0.23.*",
        ),
        (f"{GOOGLES}/prediction/xgboost-cpu.1-7:latest", "", "xgboost==1.7.*"),
        ("python:3.11/mine:1", "", ""),
        ("tensorflow/tensorflow:2.15.0", "", ""),
    ],
)
def test_known_images_have_their_python_and_framework(name, minor, package):
    image = StepImage.of(name)
    assert (image.minor, image.package, image.is_own) == (minor, package, False)
    assert ("is not used" in image.difference) == (not minor and not package)


def test_an_installed_package_declares_its_image(tmp_path, monkeypatch):
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vertex_local.own_images]\nmine-image = mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    step_image._own_images.cache_clear()
    names = [
        "r.example/p/mine-image:1",
        "mine-image@sha256:0",
        "mine-image",
        "mine:1",
        "mine-image/x",
    ]
    assert [StepImage.of(name).is_own for name in names] == [True, True, True, False, False]
    step_image._own_images.cache_clear()
    monkeypatch.setenv("VERTEX_LOCAL_SERVICE_PACKAGES", "1")
    assert StepImage.of("python:3.11").is_own


def test_a_python_that_is_not_there_is_said_once(monkeypatch, caplog):
    monkeypatch.setenv("PATH", "")
    store.interpreter.cache_clear()
    own = f"python3.{sys.version_info.minor}"
    assert store.interpreter("7").name == store.interpreter("7").name == own
    assert caplog.text.count("python3.7 is not on PATH") == 1


def test_without_kfp_pipelines_are_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(pipelines.metadata, "distributions", lambda name: [])
    with pytest.raises(ApiError, match=r"kfp is not installed.*-m pip install kfp") as caught:
        pipelines.create(None, None)
    assert caught.value.status == "FAILED_PRECONDITION"
