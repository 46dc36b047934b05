"""Every command of README.md, CONTRIBUTING.md and docs/ is run, in the order of its page.

`runner.py` lists the commands that only have their arguments checked, each with its reason.
"""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kfp import compiler, dsl

from components.shared.vertex.api import EMULATOR_VARIABLE
from pipelines.cli import main
from pipelines.places.target import LOCAL_PROJECT
from tests.docs.runner import Runner, write_instances
from tools.pages import (
    CHOOSING,
    OLD_COMMANDS,
    PAGES,
    RETRAINING,
    ROOT,
    RUNS,
    YOUR_OWN,
    Command,
    commands_of,
    files_of,
    mentioned_commands,
    table_rows,
)
from vertex_local.tests.support.jobs import pool
from vertex_local.tests.support.service import (
    PRELOAD_KFP,
    SERVER_SCRIPT,
    RunningService,
    deployment,
    running_service,
)

pytestmark = pytest.mark.timeout(180)

PARENT = f"/v1/projects/{LOCAL_PROJECT}/locations/us-central1"
SERVER = SERVER_SCRIPT
JOB = """
import os, pathlib
print("begins")
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "saved_model.pb").touch()
(folder / "workload.json").write_text('{"workload": "mnist", "facts": {}}')
"""
LONG_JOB = "import time; time.sleep(100)"
IMAGE = "us-central1-docker.pkg.dev/p/repository/trainyard:1"
CHANGING = re.compile(
    r"(jobs|runs) (cancel|delete)|models (delete|upload|rollback)|endpoints delete"
    r"|schedule (pause|delete)"
)
SCHEDULE = """\
package: ../nap.yaml
cron: "0 3 * * *"
"""


@dsl.component(base_image="r.example/python:3.11")
def step():
    print("done")  # noqa: T201


@dsl.pipeline(name="two-steps")
def two_steps(keep_endpoint: bool = True):
    for name in ("train", "evaluate"):
        step().set_display_name(name)


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request):
    return request.param


@dataclass(frozen=True)
class Scene:
    """A service with something in it, in a folder.

    Args:
        names: Placeholders of the pages, such as JOB, and their values in the service.
    """

    folder: Path
    service: RunningService
    names: dict[str, str]


@contextmanager
def prepared_scene(folder: Path, text: str) -> Iterator[Scene]:
    """Serve what a page's text needs: a job, one to cancel, a model at an endpoint, a run."""
    names = {"RUN": "nap-1", "SCHEDULE": "nap", "DIR": "service", "IMAGE": IMAGE}
    with running_service(folder / "vertex", *PRELOAD_KFP) as service:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
            if "jobs cancel" in text:
                names["LONG_JOB"] = start_job(service, LONG_JOB)
            names["JOB"] = start_job(service, JOB)  # the newest of the name
            if re.search(r"trainyard (models|endpoints)", text):
                serve_mnist(service)
            if re.search(r"\bRUN\b|trainyard schedule", text):
                run_and_schedule()
            assert main(["jobs", "wait", names["JOB"]]) == 0
        yield Scene(folder, service, names)


@pytest.fixture(scope="module")
def shared_scene(tmp_path_factory):
    """Return the scene of all pages whose commands leave it as it is."""
    texts = [page.read_text() for page in PAGES if not is_changing(page)]
    with prepared_scene(tmp_path_factory.mktemp("scene"), "\n".join(texts)) as scene:
        yield scene


@pytest.fixture
def scene(page, request):
    """Return the shared scene, or one of the page alone if its commands change it."""
    if not is_changing(page):
        yield request.getfixturevalue("shared_scene")
        return
    folder = request.getfixturevalue("tmp_path") / "scene"
    folder.mkdir()
    with prepared_scene(folder, page.read_text()) as scene:
        yield scene


def is_changing(page: Path) -> bool:
    """Return whether a page has commands that change or remove what the service holds."""
    return bool(CHANGING.search(page.read_text()))


@pytest.fixture
def runner(page, scene, tmp_path, *, monkeypatch, tiny_mnist, tiny_cifar10, taxi_rows, write_csv):
    """A folder with the page's files, and the scene's service."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(EMULATOR_VARIABLE, scene.service.url.removeprefix("http://"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for variable in ("TF_CONFIG", "GOOGLE_CLOUD_PROJECT", "TRAINYARD_PIPELINE_ROOT"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    Path("dist").mkdir()
    Path("dist/mnist.yaml").symlink_to(ROOT / "tests/pipelines/package/golden/mnist.yaml")
    for name in ("schedules", ".trainyard"):
        if (scene.folder / name).exists():
            Path(name).symlink_to(scene.folder / name)
    Path(".trainyard/vertex").mkdir(parents=True, exist_ok=True)
    write_files(page)
    names = {**scene.names, "TRIPS": str(write_csv(taxi_rows()))}
    (tmp_path / "out").symlink_to(scene.folder / "job", target_is_directory=True)
    runner = Runner(names=names, raw={"mnist": tiny_mnist(), "cifar10": tiny_cifar10()})
    environment = dict(os.environ)
    yield runner
    runner.close()
    os.environ.clear()
    os.environ.update(environment)


def write_files(page: Path) -> None:
    """Write the files of the page about the user's own data; of others the customers."""
    rows = [f"{at},{at % 7},{'yes' if at % 3 else 'no'}\n" for at in range(60)]
    Path("customers.csv").write_text("".join(["customer_id,visits,churned\n", *rows]))
    has_own = page in (YOUR_OWN, RETRAINING, CHOOSING, RUNS)
    for name, text in files_of(page).items() if has_own else ():
        if name.startswith("configs/"):  # a link to the repository
            continue
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def start_job(service, code: str) -> str:
    output = {"outputUriPrefix": os.path.abspath("job")}
    spec = {"workerPoolSpecs": [pool(code)], "baseOutputDirectory": output}
    body = {"displayName": "mnist-1", "jobSpec": spec}
    return service.do("POST", f"{PARENT}/customJobs", body)["name"].rpartition("/")[2]


def serve_mnist(service) -> None:
    """Register two versions of a model and deploy the first."""
    folder = Path("artifact")
    folder.mkdir()
    container = {"imageUri": "i", "command": ["python", str(SERVER)]}
    model = {
        "displayName": "mnist",
        "artifactUri": str(folder.absolute()),
        "containerSpec": container,
    }
    name = service.do("POST", f"{PARENT}/models:upload", {"model": model})["model"]
    second = {"model": {**model, "versionAliases": ["previous"]}, "parentModel": name}
    service.do("POST", f"{PARENT}/models:upload", second)
    endpoint = service.do("POST", f"{PARENT}/endpoints", {"displayName": "mnist"})["name"]
    deployed = deployment(f"{name}@1", trafficSplit={"0": 100})
    service.do("POST", f"/v1/{endpoint}:deployModel", deployed)


def run_and_schedule() -> None:
    """Run a pipeline of one step as `nap-1`, and schedule it as `nap`."""
    Path("schedules").mkdir()
    compiler.Compiler().compile(two_steps, "nap.yaml")
    Path("schedules/nap.yaml").write_text(SCHEDULE)
    assert main(["submit", "nap.yaml", "--name", "nap-1", "--wait"]) == 0
    assert main(["schedule", "apply", "schedules"]) == 0


def run_all(commands: list[Command], run, capfd) -> None:
    """Run all commands of a page; fail with all that failed."""
    failed = []
    for command in commands:
        write_instances(command.line)
        try:
            run(command.words)
        except (Exception, SystemExit) as error:
            failed.append(f"{command.line}\n    {error}\n    {capfd.readouterr().err[-500:]}")
    assert not failed, "\n".join(failed)


def test_every_command_of_a_page_works(runner, page, capfd):
    if page != OLD_COMMANDS:
        run_all(commands_of(page), runner.run, capfd)
        return
    commands = []
    for row in table_rows(page):
        assert len(row) == 3, f"not three cells: {row}"
        assert re.fullmatch(r"`[^`]+`", row[1]), f"not one command: {row[1]}"
        text = row[1].strip("`")
        commands.append(Command(text, tuple(shlex.split(text))))
    run_all(commands, runner.run, capfd)


def test_every_mentioned_command_exists(page, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = Runner(names={}, raw={})
    run_all(mentioned_commands(page), runner.help, capfd)


def test_the_page_of_old_commands_names_each():
    old = " ".join(row[0] for row in table_rows(OLD_COMMANDS))
    for name in (
        "jobs submit training",
        "local train --distributed",
        "local predict",
        "jobs list",
        "jobs describe",
        "jobs stream-logs",
        "jobs cancel",
        "models create",
        "versions create",
        "versions set-default",
        "versions list",
        "versions delete",
        "predict --model",
        *("--json-instances", "tensorboard --logdir", "create_records.py", "train-local.sh"),
        *("--train-steps", "--checkpoint-num-steps", "--num-gpus", "--job-dir", "TF_CONFIG"),
        *("--config", "--scale-tier", "--module-name"),
    ):
        assert name in old, name
    assert "--eval-steps" in OLD_COMMANDS.read_text()
