import fcntl
import os
import sys
from pathlib import Path

import pytest
from kfp import dsl

from vertex_local.pipelines.run_state import TaskError
from vertex_local.pipelines.step_environment import Provider
from vertex_local.processes.environments import own
from vertex_local.processes.environments.commands import Step, own_kfp
from vertex_local.processes.environments.store import (
    LOCK_FILE,
    RECORD_FILE,
    VENV_FOLDER,
    Store,
    StoreError,
    key_of,
    write_record,
)

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
def test_the_packages_of_what_any_kfp_compiles_are_found(version):
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
def test_the_packages_of_what_this_kfp_compiles_are_found(options, requirements):
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
def test_a_script_that_is_not_kfps_is_left_to_the_shell(script):
    command = ["sh", "-c", script, *STEP]
    assert Step.of(command) == Step(tuple(command))
    assert not Step.of(command).needs_environment


def test_the_key_covers_order_python_and_what_local_files_hold(tmp_path):
    wheel = tmp_path / "fares.whl"
    wheel.write_text("one")
    keys = {key_of((("a", "b"),)), key_of((("b", "a"),)), key_of((("a",), ("b",)))}
    keys |= {key_of(((str(wheel),),)), key_of(((str(tmp_path),),))}
    wheel.write_text("two, longer")
    keys |= {key_of(((str(wheel),),)), key_of(((str(tmp_path),),))}
    assert len(keys) == 7


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "environments", limit_bytes=30_000)


def build(folder: Path) -> None:
    (folder / VENV_FOLDER).mkdir()
    (folder / VENV_FOLDER / "file").write_bytes(b"x" * 8192)
    write_record(folder, requirements=(folder.name,), packages=["fares==1.0"])


def never(*_: object) -> None:
    raise AssertionError


def used(store: Store, key: str, *, moment: float) -> None:
    with store.using(key, build=build, wait=never):
        pass
    os.utime(store.folder / key / RECORD_FILE, (moment, moment))


def test_an_environment_is_built_once_and_its_use_is_kept(store):
    used(store, "a", moment=1)
    with store.using("a", build=never, wait=never) as prefix:
        assert (prefix / "file").exists()
        [found] = store.environments()
        assert found.is_in_use
        assert found.last_used > 1
        assert not store.remove("a")
    [found] = store.environments()
    assert not found.is_in_use
    assert (found.requirements, found.packages) == (("a",), ("fares==1.0",))
    assert store.folder.stat().st_mode & 0o777 == 0o700


def test_the_least_recently_used_goes_unless_it_is_in_use(store):
    for moment, key in enumerate("abcd"):
        used(store, key, moment=moment + 1)
    used(store, "b", moment=9)
    with store.using("a", build=never, wait=never):
        os.utime(store.folder / "a" / RECORD_FILE, (0, 0))
        removed = store.prune()
    assert [one.key for one in removed] == ["c"]
    assert [one.key for one in store.environments()] == ["b", "d", "a"]


def test_what_is_half_built_is_not_used_and_is_removed(store):
    folder = store.folder / "half"
    (folder / VENV_FOLDER).mkdir(parents=True)
    (folder / VENV_FOLDER / "rest").touch()
    (folder / LOCK_FILE).touch()
    assert store.environments() == []
    with store.using("half", build=build, wait=never) as prefix:
        assert not (prefix / "rest").exists()
    (folder / RECORD_FILE).unlink()
    store.prune()
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"requirements": null}'])
def test_one_with_a_damaged_record_is_not_listed_and_is_removed(store, text):
    used(store, "damaged", moment=1)
    (store.folder / "damaged" / RECORD_FILE).write_text(text)
    assert store.environments() == []
    assert store.prune() == []
    assert list(store.folder.iterdir()) == []


def test_a_build_that_fails_leaves_nothing(store):
    def fail(folder: Path) -> None:
        (folder / VENV_FOLDER).mkdir()
        raise TaskError("no such package")

    with pytest.raises(TaskError, match="no such"), store.using("a", build=fail, wait=never):
        pass
    assert list(store.folder.iterdir()) == []


def test_waiting_for_another_build_ends_with_the_words_what_for(store, tmp_path, monkeypatch):
    monkeypatch.setenv("VERTEX_LOCAL_ENVIRONMENTS", str(store.folder))
    step = Step(tuple(STEP), (("pandas==1.5.3",),))
    folder = store.folder / key_of(step.installs)
    folder.mkdir(parents=True)
    provider = Provider(
        task="load",
        image="python:3.11",
        log_path=tmp_path / "log",
        temp_dir=tmp_path / "temp",
        must_stop=lambda: False,
        timeout_seconds=0.2,
    )
    with (folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TaskError) as caught, provider.environment(step):
            pass
    assert "pandas==1.5.3" in str(caught.value)
    assert "not built within" in str(caught.value)
    assert "another step is building" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("text", ["many", "-1", "nan"])
def test_a_limit_that_is_no_size_is_named(monkeypatch, text):
    monkeypatch.setenv("VERTEX_LOCAL_ENVIRONMENTS_GB", text)
    with pytest.raises(StoreError, match=f"VERTEX_LOCAL_ENVIRONMENTS_GB='{text}'"):
        Store.of_user()


@pytest.mark.parametrize(("version", "is_good"), [("2.17.0", True), ("2.14.6", False)])
def test_a_service_says_how_to_mend_its_kfp(monkeypatch, version, is_good):
    monkeypatch.setattr(own.metadata, "version", lambda name: version)
    problem = own.problem()
    assert (problem == "") == is_good
    if not is_good:
        assert f"kfp {version} is installed" in problem
        assert problem.endswith(f"{sys.executable} -m pip install kfp=={own.TESTED_KFP}")
        assert "\n" not in problem
