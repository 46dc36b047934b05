import os
import sys
import time
from pathlib import Path

import pytest
from kfp import dsl

from vertex_local.errors import ApiError
from vertex_local.pipelines import kfp_version as own
from vertex_local.pipelines import resource as pipelines
from vertex_local.processes.environments.commands import Step, own_kfp
from vertex_local.processes.environments.store import building, is_complete, prefix_of

pytestmark = pytest.mark.fast

STEP = ["sh", "-ec", "the step"]
LOOK = (
    'if ! [ -x "$(command -v pip)" ]; then\n    python3 -m ensurepip || '
    "python3 -m ensurepip --user || apt-get install python3-pip\nfi\n\n"
)
PIP = "python3 -m pip install --quiet --no-warn-script-location"
NO_DEPS = "'--no-deps' 'typing-extensions>=3.7.4,<5; python_version<\"3.9\"'"
INDEX = "--index-url https://i/simple --trusted-host https://i/simple"
VENV = (
    '\nexport PIP_DISABLE_PIP_VERSION_CHECK=1\ntmp=$(mktemp -d)\npython3 -m venv "$tmp/venv" '
    '--system-site-packages\n. "$tmp/venv/bin/activate"\n'
)
HEAD = f"\n{LOOK}PIP_DISABLE_PIP_VERSION_CHECK=1"
# As these versions of kfp compile packages_to_install=["pandas==1.5.3"].
COMPILED = {
    "2.0.1": f"{HEAD} python3 -m pip install --quiet     --no-warn-script-location {INDEX} "
    "'pandas==1.5.3' 'kfp==2.0.1' && \"$0\" \"$@\"\n",
    "2.4.0": f"{HEAD} {PIP} 'kfp==2.4.0' {NO_DEPS}  &&  {PIP} 'pandas==1.5.3' && \"$0\" \"$@\"\n",
    "2.14.6": f"{HEAD} {PIP} 'pandas==1.5.3'  &&  {PIP} 'kfp==2.14.6' {NO_DEPS} && \"$0\" \"$@\"\n",
    "2.17.0": f"{HEAD} {PIP} 'pandas==1.5.3'  &&  {VENV} {PIP} 'kfp==2.17.0' {NO_DEPS} "
    '&& "$0" "$@"\n',
}


@pytest.mark.parametrize("version", COMPILED)
def test_packages_in_commands_of_every_kfp_version_are_found(version):
    step = Step.of(["sh", "-c", COMPILED[version], *STEP])
    assert set(step.requirements) == {"pandas==1.5.3", f"kfp=={version}"}
    assert step.command == tuple(STEP)
    assert step.needs_environment


def report() -> str:
    return ""


@pytest.mark.filterwarnings("ignore:The default base_image:FutureWarning")
@pytest.mark.parametrize(
    ("options", "requirements"),
    [
        ({}, [own_kfp()]),
        ({"use_venv": True}, [own_kfp()]),
        ({"install_kfp_package": False}, []),
        ({"pip_index_urls": ["https://i"], "pip_trusted_hosts": []}, [own_kfp()]),
        ({"packages_to_install": ["kfp==2.0.1"]}, ["kfp==2.0.1"]),
        ({"packages_to_install": ["a~=1.5", "b[x]==3.20.*", "c!=1.0,>=0"]}, None),
        ({"packages_to_install": ["a>=2,<3; python_version > '3'"], "use_venv": True}, None),
        ({"packages_to_install": ["git+https://token@h/x#egg=y"]}, None),
        ({"kfp_package_path": "/tmp/kfp.whl"}, ["/tmp/kfp.whl"]),
    ],
    ids=str,
)
def test_packages_in_commands_of_the_installed_kfp_are_found(options, requirements):
    container = dsl.component(report, **options).component_spec.implementation.container
    step = Step.of(container.command)
    if requirements is None:
        requirements = [*options["packages_to_install"], own_kfp()]
    shown = [one.replace("token@", "***@") for one in requirements]
    assert list(step.requirements) == shown
    assert step.needs_environment == (
        set(shown) > {own_kfp()} or (own_kfp() not in shown and bool(shown))
    )
    assert step.command[:2] == ("sh", "-ec")


@pytest.mark.parametrize(
    "script",
    [
        'pip install pandas || true; "$0" "$@"',
        'pip install pandas && rm -rf x && "$0" "$@"',
        'pip install "$PACKAGE" && "$0" "$@"',
        'pip install `cat packages` && "$0" "$@"',
        'pip install --target /x pandas && "$0" "$@"',
        'pip install --prefix=/x pandas && "$0" "$@"',
        'pip install pandas > log && "$0" "$@"',
        'sudo pip install pandas && "$0" "$@"',
        "pip install pandas",
        'pip install && "$0" "$@"',
        'pip install "pandas && "$0" "$@"',
        '"$0" "$@"',
        "",
    ],
)
def test_other_scripts_are_run_by_the_shell(script):
    command = ["sh", "-c", script, *STEP]
    assert Step.of(command) == Step(tuple(command))
    assert not Step.of(command).needs_environment


def test_the_place_depends_on_order_python_and_local_files(tmp_path):
    wheel = tmp_path / "fares.whl"
    wheel.write_text("one")
    keys = {prefix_of((("a", "b"),)), prefix_of((("b", "a"),)), prefix_of((("a",), ("b",)))}
    keys |= {prefix_of(((str(wheel),),)), prefix_of(((str(tmp_path),),))}
    wheel.write_text("two, longer")
    keys |= {prefix_of(((str(wheel),),)), prefix_of(((str(tmp_path),),))}
    assert len(keys) == 7


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """Return the place of an environment that does not exist."""
    monkeypatch.setenv("VERTEX_LOCAL_ENVIRONMENTS", str(tmp_path / "environments"))
    return prefix_of((("fares==1.0",),))


def test_an_environment_is_in_its_place_once_it_is_complete(prefix):
    with building(prefix) as draft:
        (draft / "file").touch()
        assert not is_complete(prefix)
    assert is_complete(prefix)
    assert [path.name for path in prefix.iterdir()] == ["file"]
    assert prefix.parent.stat().st_mode & 0o777 == 0o700


def test_of_two_equal_builds_the_first_stays(prefix):
    with building(prefix) as second:
        (second / "second").touch()
        with building(prefix) as first:
            (first / "first").touch()
    assert [path.name for path in prefix.iterdir()] == ["first"]
    assert list(prefix.parent.iterdir()) == [prefix]


def fail(draft: Path) -> None:
    (draft / "rest").touch()
    raise ValueError("no such package")


def test_a_failed_build_leaves_nothing(prefix):
    with pytest.raises(ValueError, match="no such"), building(prefix) as draft:
        fail(draft)
    assert list(prefix.parent.iterdir()) == []


def test_unused_environments_and_the_drafts_of_killed_builds_are_removed(prefix):
    ages = {"unused": 31, "used": 29, "building-killed": 2, "building-now": 0}
    for name, days in ages.items():
        folder = prefix.parent / name
        folder.mkdir(parents=True)
        moment = time.time() - days * 24 * 3600
        os.utime(folder, (moment, moment))
    with building(prefix):
        pass
    assert {path.name for path in prefix.parent.iterdir()} == {"used", "building-now", prefix.name}


@pytest.mark.parametrize(("version", "is_good"), [("2.17.0", True), ("2.14.6", False)])
def test_the_error_of_a_wrong_kfp_has_the_remedy(monkeypatch, version, is_good):
    monkeypatch.setattr(own.metadata, "version", lambda name: version)
    problem = own.problem()
    assert (problem == "") == is_good
    if not is_good:
        assert f"kfp {version} is installed" in problem
        assert problem.endswith(f"{sys.executable} -m pip install kfp=={own.TESTED_KFP} uv")
        assert "\n" not in problem


def test_without_kfp_pipelines_are_refused_with_the_remedy(monkeypatch):
    def no_version(name: str) -> str:
        raise own.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(own.metadata, "version", no_version)
    with pytest.raises(ApiError, match=r"kfp is not installed.*-m pip install kfp==") as caught:
        pipelines.create(None, None)
    assert caught.value.status == "FAILED_PRECONDITION"
