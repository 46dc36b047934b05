"""Steps that ask for packages, with a real uv: they get them, and the service keeps its own."""

import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kfp
import pytest
from kfp import components, dsl

from vertex_local import redirect
from vertex_local.processes.environments import store
from vertex_local.processes.environments.layer import Layer
from vertex_local.processes.environments.store import DRAFT_PREFIX
from vertex_local.tests.support.jobs import job, pool, wait_for_end
from vertex_local.tests.support.pipeline_runs import Runs, task_detail
from vertex_local.tests.support.platform import IS_PORTABLE
from vertex_local.tests.support.seen import is_running, running
from vertex_local.tests.support.service import PRELOAD_KFP, running_service
from vertex_local.tests.support.waiting import wait_until
from vertex_local.tests.support.wheels import write_kfp_wheel, write_slow_sdist, write_wheel

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore:The default base_image:FutureWarning"),
]
OLD_KFP = "2.14.6"
WAIT_SECONDS = 120
PIP_VARIABLES = ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_TARGET", "PIP_USER")


def report() -> str:
    import json
    import os
    import sys

    import kfp

    found = {"prefix": sys.prefix, "kfp": kfp.__version__, "warm": "kfp.local" in sys.modules}
    found["cwd"] = os.getcwd()
    for name in ("numpy", "fares"):
        try:
            module = __import__(name)
            found[name] = module.__version__
        except ImportError:
            found[name] = ""
    return json.dumps(found)


def install(commands: list) -> str:
    """Run commands, in which PYTHON is this step's interpreter."""
    import json
    import subprocess
    import sys

    named = [[sys.executable if word == "PYTHON" else word for word in one] for one in commands]
    ends = [subprocess.run(command, check=False).returncode for command in named]
    import fares

    return json.dumps({"ends": ends, "fares": fares.__version__})


def component(function=report, *, kfp_version=kfp.__version__, **options):
    """Return a component as another version of kfp compiles it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kfp, "__version__", kfp_version)
        return dsl.component(function, **options)


def pipeline_of(*made, **arguments):
    @dsl.pipeline(name="packages")
    def packages():
        for one in made:
            one(**arguments).set_caching_options(False)

    return packages


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    for version in (OLD_KFP, kfp.__version__):
        write_kfp_wheel(folder, version)
    write_wheel(folder, "fares", "1.0", {"fares.py": "__version__ = '1.0'\n"})
    write_wheel(folder, "numpy", "1.0", {"numpy.py": "__version__ = '1.0'\n"})
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory, wheels):
    """Return the folder of a service whose only package index is local, and its environments."""
    folder = tmp_path_factory.mktemp("offline")
    with pytest.MonkeyPatch.context() as patch:
        for name in PIP_VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # as in many images
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_NO_WARN_CONFLICTS", "0")  # 3 s for the requirements of all installed
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        patch.setenv("VERTEX_LOCAL_ENVIRONMENTS", str(folder / "environments"))
        yield folder


@pytest.fixture(scope="module")
def service(place):
    with running_service(place / "vertex", *PRELOAD_KFP) as one:
        yield one


@pytest.fixture
def runs(service, tmp_path):
    return Runs(service, tmp_path)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_written():
    """Compare every file of the environment of the service and these tests; it takes seconds."""
    before = installed()
    yield
    after = installed()
    assert before == after, sorted(set(before.items()) ^ set(after.items()))[:10]


def installed() -> dict[str, tuple[int, int]]:
    """The size and the time of change of each file, by its path."""
    files = {}
    for top in {*site.getsitepackages(), sysconfig.get_path("scripts")}:
        for folder, folders, names in os.walk(top):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for path in (os.path.join(folder, name) for name in names):
                state = os.lstat(path)
                files[path] = state.st_size, state.st_mtime_ns
    return files


def succeeded(runs, made, **arguments) -> list[dict]:
    job = runs.wait(runs.submit(pipeline_of(*made, **arguments)), timeout_seconds=WAIT_SECONDS)
    assert job["state"] == "PIPELINE_STATE_SUCCEEDED", (job["error"], runs.log(job))
    details = job["jobDetail"]["taskDetails"]
    outputs = [
        one["execution"]["metadata"]["output:Output"] for one in details if "execution" in one
    ]
    return [json.loads(text) for text in outputs if text]


def num_built(runs) -> int:
    logs = runs.service.root.glob("pipelines/*/tasks/*.log")
    return sum(path.read_text().count("building the environment") for path in logs)


def environments(place: Path) -> list[Path]:
    """Return the complete environments."""
    paths = (place / "environments").glob("*")
    return [path for path in paths if not path.name.startswith(DRAFT_PREFIX)]


def kept(place: Path) -> set[str]:
    """Return all environments, complete or not."""
    folder = place / "environments"
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_a_default_component_of_this_kfp_runs_warm(runs):
    [found] = succeeded(runs, [component()])
    assert found["warm"] is not IS_PORTABLE
    assert found["kfp"] == kfp.__version__


def test_a_step_may_require_versions_that_conflict_with_the_service(runs):
    made = [
        component(packages_to_install=["numpy==1.0"], use_venv=use_venv)
        for use_venv in (False, True)
    ]
    for found in succeeded(runs, made):
        assert (found["numpy"], found["kfp"]) == ("1.0", kfp.__version__)


def test_steps_with_equal_requirements_share_an_environment_that_a_run_builds_once(runs, place):
    made = component(packages_to_install=["fares==1.0", "numpy"], install_kfp_package=False)
    before, built = len(environments(place)), num_built(runs)
    drafts = kept(place) - {path.name for path in environments(place)}  # of a killed service
    with ThreadPoolExecutor(2) as threads:
        both = [
            threads.submit(succeeded, Runs(runs.service, runs.folder / n), [made, made])
            for n in ("a", "b")
            if not (runs.folder / n).mkdir()
        ]
        found = [one for run in both for one in run.result()]
    assert {(one["fares"], one["numpy"], one["kfp"]) for one in found} == {
        ("1.0", "1.0", kfp.__version__)
    }
    assert len(found) == 4
    assert len({one["prefix"] for one in found}) == 4, "each has a layer of its own"
    assert num_built(runs) - built in (1, 2), "by one of the two runs, or both"
    assert len(environments(place)) == before + 1
    assert kept(place) - drafts == {path.name for path in environments(place)}
    assert all(list(one.rglob("kfp/__pycache__")) for one in environments(place)), "compiled once"


@pytest.mark.linux("folders that a step cannot write to")
def test_no_installer_in_a_step_changes_the_service_or_the_next_step(runs):
    commands = [
        ["PYTHON", "-m", "pip", "install", "fares==1.0"],
        ["python3", "-m", "pip", "install", "--force-reinstall", "--no-deps", f"kfp=={OLD_KFP}"],
        ["pip", "install", "numpy==1.0"],
        ["sh", "-c", "pip3 uninstall -y rich"],
        ["pip", "install", "--prefix", sys.prefix, "fares==1.0"],
        [f"{sys.prefix}/bin/python", "-m", "pip", "install", "--no-deps", f"kfp=={OLD_KFP}"],
        ["PYTHON", "-c", "from pip._internal.cli.main import main; main(['install', 'fares'])"],
    ]
    installer = component(install, install_kfp_package=False)
    [found] = succeeded(runs, [installer], commands=commands)
    assert found["fares"] == "1.0"
    assert found["ends"][:4] == [0, 0, 0, 0], "as in a container"
    [after] = succeeded(runs, [component()])
    assert (after["fares"], after["kfp"]) == ("", kfp.__version__)
    assert after["numpy"] != "1.0"


@pytest.mark.linux("folders that a step cannot write to")
def test_a_default_component_of_another_kfp_gets_an_environment_that_no_step_changes(runs):
    commands = [
        ["pip", "install", "fares==1.0"],
        ["python3", "-m", "pip", "install", "numpy==1.0"],
        ["pip", "uninstall", "-y", "kfp"],
        [f"{sys.prefix}/bin/pip", "uninstall", "-y", "rich"],
    ]
    made = component(install, kfp_version=OLD_KFP)
    [found] = succeeded(runs, [made], commands=commands)
    assert found["fares"] == "1.0"
    assert found["ends"][:2] == [0, 0]
    [after] = succeeded(runs, [component(kfp_version=OLD_KFP)])
    assert (after["fares"], after["kfp"]) == ("", OLD_KFP)
    assert after["numpy"] == "", "only the packages it requires, as in a container"
    assert not after["warm"]
    assert after["prefix"] != sys.prefix
    assert after["cwd"] != os.getcwd()


def test_other_commands_install_into_their_layer(runs):
    text = json.dumps(
        {
            "name": "report",
            "outputs": [{"name": "Output", "type": "String"}],
            "implementation": {"container": _shell(component(install_kfp_package=False))},
        }
    )
    [found] = succeeded(runs, [components.load_component_from_text(text)])
    assert (found["fares"], found["kfp"]) == ("1.0", OLD_KFP)


def _shell(made) -> dict:
    """Return a container component with a hand-written installation."""
    container = made.component_spec.implementation.container
    script = f'for one in fares kfp=={OLD_KFP}; do pip install --no-deps "$one"; done; "$0" "$@"'
    command = ["sh", "-c", script, *container.command]
    return {
        "image": "python:3.11",
        "command": command,
        "args": [
            "--executor_input",
            {"executorInput": None},
            "--function_to_execute",
            "report",
        ],
    }


def test_a_job_that_installs_packages_has_them_and_the_service_keeps_its_own(service, tmp_path):
    code = f"import numpy; open('{tmp_path}/said', 'w').write(numpy.__version__)"
    script = f'pip install --user numpy==1.0 && python -c "{code}"'
    created = service.do("POST", "customJobs", job(pool("", command=["sh", "-c", script])))
    wait_for_end(service, created, timeout_seconds=WAIT_SECONDS)
    assert (tmp_path / "said").read_text() == "1.0"


def test_the_error_of_a_package_that_cannot_be_installed_says_why(runs, place, tmp_path):
    before = kept(place)
    address = f"git+file://{tmp_path}/none"
    missing = component(packages_to_install=["fares==9.9", "numpy"], base_image="python:3.8-slim")
    job = runs.submit(pipeline_of(missing, component(packages_to_install=[address])))
    job = runs.wait(job, timeout_seconds=WAIT_SECONDS)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    message = task_detail(job, "report")["error"]["message"]
    assert "there is no version of fares==9.9" in message.partition(" uv: ")[2]
    assert "Its image has Python 3.8" in message
    message = task_detail(job, "report-2")["error"]["message"]
    assert address in message.partition(" uv: ")[0]
    assert "does not appear to be a git repository" in message, message
    assert kept(place) == before


@pytest.fixture
def slow(runs, wheels, tmp_path, request):
    """Return a component whose package build waits for the test; each test has its own version."""
    version = request.param
    archive = write_slow_sdist(wheels, version=version, place=tmp_path)
    yield component(packages_to_install=[f"slow-fares=={version}"])
    archive.unlink()


@pytest.mark.parametrize("slow", ["1.1"], indirect=True)
def test_a_cancel_ends_the_build_and_leaves_nothing(runs, slow, place, tmp_path):
    before = kept(place)
    job = runs.submit(pipeline_of(slow))
    wait_until((tmp_path / "begun").exists, "the build", timeout_seconds=WAIT_SECONDS)
    pids = running("slow-fares==1.1")
    assert pids
    runs.service.do("POST", f"/v1/{job['name']}:cancel", {})
    assert runs.wait(job)["state"] == "PIPELINE_STATE_CANCELLED"
    assert not any(map(is_running, pids))
    assert kept(place) == before


@pytest.mark.parametrize("slow", ["1.0"], indirect=True)
def test_an_environment_half_built_by_a_killed_service_is_built_again(
    runs, place, wheels, slow, tmp_path
):
    service = runs.service
    job = runs.submit(pipeline_of(slow))
    wait_until((tmp_path / "begun").exists, "the build", timeout_seconds=WAIT_SECONDS)
    pids = running("slow-fares==1.0")
    complete = len(environments(place))
    service.kill()
    wait_until(lambda: not any(map(is_running, pids)), "the build to end")
    assert len(environments(place)) == complete
    service.start()
    assert runs.wait(job)["state"] == "PIPELINE_STATE_FAILED"
    (tmp_path / "go").touch()
    succeeded(runs, [slow])
    assert len(environments(place)) == complete + 1
    hidden = shutil.move(wheels, wheels.with_name("hidden"))
    assert service.stop() == 0
    service.start()
    try:  # without the package index, from the kept environment
        before = num_built(runs)
        succeeded(runs, [slow])
        assert num_built(runs) == before
    finally:
        shutil.move(hidden, wheels)


def test_a_layer_has_the_packages_of_its_base_and_its_own(tmp_path):
    layer = Layer.make(tmp_path / "a layer", base=Path(sys.prefix))
    code = "import sys, sysconfig, kfp; print(sys.prefix, sysconfig.get_path('purelib'), sep='|')"
    given = {**os.environ, "PIP_TARGET": "/x", "_KFP_RUNTIME": "true"}
    env = layer.environment(given)
    ended = subprocess.run(
        ["python3", "-c", code], env=env, cwd="/", capture_output=True, text=True, check=True
    )
    prefix, packages = ended.stdout.strip().split("|")
    assert prefix == str(layer.folder)
    assert packages.startswith(prefix)
    assert "PIP_TARGET" not in env
    assert env["VIRTUAL_ENV"] == prefix


def test_with_another_environment_only_the_redirection_of_googles_sdk_is_in_the_path(tmp_path):
    layer = Layer(tmp_path / "layer", base=tmp_path / "base")
    assert layer.environment({"PYTHONPATH": "/of/the/service"})["PYTHONPATH"] == redirect.FOLDER


def test_uv_uses_the_indexes_of_pip_unless_it_has_its_own(tmp_path, monkeypatch):
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://mirror/simple\nfind-links = /a /b\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_DEFAULT_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_FIND_LINKS", "/c /d")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    store.pip_settings.cache_clear()
    assert store.variables()["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert store.variables()["UV_FIND_LINKS"] == "/c,/d"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://own/simple")
    assert store.variables()["UV_DEFAULT_INDEX"] == "https://own/simple"
    assert "--no-index" in next(store.commands(tmp_path, (("fares",),)))
    store.pip_settings.cache_clear()
