"""Steps that ask for packages, with a real uv: they get them, and the service keeps its own."""

import json
import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

import kfp
import pytest
from kfp import dsl

from vertex_local import redirect
from vertex_local.processes.environments import store
from vertex_local.processes.environments.layer import Layer
from vertex_local.processes.environments.store import COMPLETE
from vertex_local.tests.support.jobs import job, pool, wait_for_end
from vertex_local.tests.support.pipeline_runs import Runs, task_detail
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
GOOGLES = "us-docker.pkg.dev/vertex-ai/prediction"
PIP_VARIABLES = ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_TARGET", "PIP_USER")


def report() -> str:
    import json
    import os
    import sys

    import kfp

    found = {"prefix": sys.prefix, "kfp": kfp.__version__, "cwd": os.getcwd()}
    found["version"] = sys.version_info.minor
    for name in ("numpy", "fares", "yaml", "xgboost"):
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
    write_kfp_wheel(folder, OLD_KFP)
    write_wheel(folder, "fares", "1.0", {"fares.py": "__version__ = '1.0'\n"})
    write_wheel(folder, "numpy", "1.0", {"numpy.py": "__version__ = '1.0'\n"})
    write_wheel(folder, "xgboost", "1.7.3", {"xgboost.py": "__version__ = '1.7.3'\n"})
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
        beside = Path(sys.base_prefix).parent.glob("3.*/bin")  # as pyenv has them
        patch.setenv("PATH", os.pathsep.join([os.environ["PATH"], *map(str, beside)]))
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
    return outputs_of(job)


def outputs_of(job: dict) -> list[dict]:
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
    return [path.parent for path in (place / "environments").glob(f"*/{COMPLETE}")]


def kept(place: Path) -> set[str]:
    """Return all environments, complete or not."""
    return {path.parent.name for path in (place / "environments").glob("*/pyvenv.cfg")}


@pytest.mark.parametrize("version", [kfp.__version__, OLD_KFP])
def test_a_step_has_kfp_and_no_other_package_of_the_service(runs, version):
    [found] = succeeded(runs, [component(kfp_version=version)])
    assert (found["kfp"], found["numpy"], found["yaml"]) == (version, "", "")
    assert found["cwd"] != os.getcwd()


def import_yaml():
    import yaml  # noqa: F401


@pytest.mark.parametrize(
    ("image", "difference"),
    [
        ("python:3.11-slim", ""),
        ("mine/ml:1", "The image mine/ml:1 is not used"),
        (f"{GOOGLES}/xgboost-cpu.1-7:latest", "a step has only xgboost==1.7.* here"),
    ],
)
def test_a_step_that_does_not_install_a_package_fails_and_says_what_to_add(runs, image, difference):
    made = component(import_yaml, base_image=image)
    job = runs.wait(runs.submit(pipeline_of(made)), timeout_seconds=WAIT_SECONDS)
    message = task_detail(job, "import-yaml")["error"]["message"]
    assert message.endswith("Add the package of 'yaml' to packages_to_install.")
    log = (runs.files(job) / "tasks" / "import-yaml.log").read_text()
    assert difference in message
    assert difference in log


def test_a_step_has_the_framework_of_googles_image_if_there_is_a_wheel(runs):
    made = [component(base_image=f"{GOOGLES}/xgboost-cpu.{one}:latest") for one in ("1-7", "1-1")]
    found = succeeded(runs, made)
    assert sorted((one["xgboost"], one["numpy"]) for one in found) == [("", ""), ("1.7.3", "")]


def test_a_step_has_the_python_of_its_image(runs, place):
    others = {str(minor) for minor in range(10, 14)} - {str(sys.version_info.minor)}
    minor = next((one for one in others if store.interpreter(one).name == f"python3.{one}"), None)
    if not minor:
        pytest.skip("this machine has one Python")
    made = component(base_image=f"python:3.{minor}-slim", packages_to_install=["fares"])
    [found] = succeeded(runs, [made])
    assert (str(found["version"]), found["fares"], found["numpy"]) == (minor, "1.0", "")


def test_a_step_may_require_versions_that_conflict_with_the_service(runs):
    [found] = succeeded(runs, [component(packages_to_install=["numpy==1.0"], use_venv=True)])
    assert (found["numpy"], found["kfp"]) == ("1.0", kfp.__version__)


def test_steps_with_equal_requirements_share_an_environment_that_is_built_once(runs, place):
    made = component(packages_to_install=["fares==1.0", "numpy"])
    before, built = len(environments(place)), num_built(runs)
    jobs = [runs.submit(pipeline_of(made, made)) for _ in range(2)]
    ended = [runs.wait(job, timeout_seconds=WAIT_SECONDS) for job in jobs]
    found = [one for job in ended for one in outputs_of(job)]
    assert [(one["fares"], one["numpy"], one["kfp"]) for one in found] == 4 * [
        ("1.0", "1.0", kfp.__version__)
    ]
    assert len({one["prefix"] for one in found}) == 4, "each has a layer of its own"
    assert (len(environments(place)), num_built(runs)) == (before + 1, built + 1)


@pytest.mark.linux("folders that a step cannot write to")
def test_no_installer_in_a_step_changes_the_service_or_the_next_step(runs):
    commands = [
        ["PYTHON", "-m", "pip", "install", "fares==1.0"],
        ["python3", "-m", "pip", "install", "--force-reinstall", "--no-deps", f"kfp=={OLD_KFP}"],
        ["pip", "install", "numpy==1.0"],
        ["sh", "-c", "pip3 uninstall -y kfp"],
        ["pip", "install", "--prefix", sys.prefix, "fares==1.0"],
        [f"{sys.prefix}/bin/python", "-m", "pip", "install", "--no-deps", f"kfp=={OLD_KFP}"],
        ["PYTHON", "-c", "from pip._internal.cli.main import main; main(['install', 'fares'])"],
    ]
    installer = component(install)
    [found] = succeeded(runs, [installer], commands=commands)
    assert found["fares"] == "1.0"
    assert found["ends"][:4] == [0, 0, 0, 0], "as in a container"
    [after] = succeeded(runs, [component()])
    assert (after["fares"], after["kfp"]) == ("", kfp.__version__)
    assert after["numpy"] == ""


def test_a_job_that_installs_packages_has_them_and_the_service_keeps_its_own(service, tmp_path):
    code = f"import numpy; open('{tmp_path}/said', 'w').write(numpy.__version__)"
    script = f'pip install --user numpy==1.0 && python -c "{code}"'
    created = service.do("POST", "customJobs", job(pool("", command=["sh", "-c", script])))
    wait_for_end(service, created, timeout_seconds=WAIT_SECONDS)
    assert (tmp_path / "said").read_text() == "1.0"


def test_the_error_of_a_package_that_cannot_be_installed_says_why(runs, place, tmp_path):
    before = kept(place)
    address = f"git+file://{tmp_path}/none"
    missing = component(packages_to_install=["fares==9.9", "numpy"])
    job = runs.submit(pipeline_of(missing, component(packages_to_install=[address])))
    job = runs.wait(job, timeout_seconds=WAIT_SECONDS)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    message = task_detail(job, "report")["error"]["message"]
    assert "No matching distribution found for fares==9.9" in message
    message = task_detail(job, "report-2")["error"]["message"]
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


def test_with_another_environment_the_path_is_the_steps_own(tmp_path, monkeypatch):
    layer = Layer(tmp_path / "layer", base=tmp_path / "base")
    monkeypatch.setenv("PYTHONPATH", "/of/the/service")
    for given, path in [("", redirect.FOLDER), ("/of/a/step:", f"/of/a/step:{redirect.FOLDER}")]:
        env = layer.environment({"PYTHONPATH": f"{given}/of/the/service"})
        assert env["PYTHONPATH"] == path
