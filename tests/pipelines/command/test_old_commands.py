"""Every command that docs/from-old-commands.md names is run, in the page's order."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import requests

from components.vertex.api import EMULATOR_VARIABLE
from pipelines.cli import main
from pipelines.target.places import LOCAL_PROJECT
from tests.support.forks import Fork, forks_with
from tests.support.service import SERVER_SCRIPT
from trainer.config.train_config import parse_flags

pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "from-old-commands.md"
PARENT = f"/v1/projects/{LOCAL_PROJECT}/locations/us-central1"
SERVER = SERVER_SCRIPT
TIMEOUT_SECONDS = 60
LOG = Path("programs.log")
TRIAL = {
    "components.prepare_examples": "--dry-run",
    "components.prepare_examples --workload mnist": "--max-examples 60 --trust-files --data-dir {}",
    "trainer.task": "--steps 1 --batch-size 8",
}
JOB = """
import os, pathlib, time
print("begins")
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "saved_model.pb").touch()
(folder / "workload.json").write_text('{"workload": "mnist", "facts": {}}')
time.sleep(SECONDS)
"""
FLAGS = ["--workload=mnist", "--examples-dir=examples"]


def rows() -> list[list[str]]:
    """Return the page's rows: old command, new command, differences."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("old", "---")]


def commands() -> list[str]:
    """Return the commands of the column `here`."""
    found = []
    for row in rows():
        assert len(row) == 3, f"not three cells: {row}"
        assert re.fullmatch(r"`[^`]+`", row[1]), f"not one command: {row[1]}"
        found.append(row[1].strip("`"))
    return found


class Runner:
    """Run a command of the page on tiny data; raise if it fails or is unknown."""

    def __init__(self, *, jobs: dict[str, str], raw: Path, ports: dict[str, str]):
        self.jobs, self.raw, self.ports = jobs, raw, ports
        self.servers: list[subprocess.Popen | Fork] = []

    def run(self, command: str) -> None:
        words = shlex.split(command)
        program = next(word for word in words if not re.match(r"[A-Z_]+=", word))
        assert program.startswith("--") or hasattr(self, f"_{program}"), f"{program} is not run"
        if program.startswith("--"):
            given = parse_flags([*FLAGS, *words])
            names = [word[2:].replace("-", "_") for word in words if word.startswith("--")]
            assert all(hasattr(given, name) for name in names), "an abbreviated flag"
        else:
            getattr(self, f"_{program}")(words)

    def _trainyard(self, words: list[str]) -> None:
        job = self.jobs["cancelled" if "cancel" in words else "short"]
        words = [job if word == "JOB_ID" else word for word in words[1:]]
        if "submit" in words:
            words = [word for word in words if word not in ("--wait", "--follow", "--dry-run")]
            words.insert(words.index("submit") + 2, "--dry-run")
        try:
            code = main(words)
        except SystemExit as error:
            code = error.code
        assert code == 0, f"exit code {code}"

    def _python(self, words: list[str]) -> None:
        start = words.index("python")
        environment = dict(word.split("=", 1) for word in words[:start])
        if "trainer.serve" in words:
            port = environment["AIP_HTTP_PORT"] = self.ports[environment["AIP_HTTP_PORT"]]
            self._serve(start_trainer(words[start:], environment), f"{port}/health")
            return
        text = " ".join(words[start + 2 :])
        trial = max((name for name in TRIAL if text.startswith(name)), key=len)
        words += TRIAL[trial].format(self.raw).split()
        if "trainer.task" in words:
            server = start_trainer(words[start:], environment)
            assert server.wait(TIMEOUT_SECONDS) == 0, LOG.read_text()
        else:
            finish([sys.executable, *words[start + 1 :]])

    def _tensorboard(self, words: list[str]) -> None:
        call = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
        port = self.ports["6006"]
        with LOG.open("ab") as log:
            server = subprocess.Popen([*call, "--port", port], stdout=log, stderr=log)
        answer = self._serve(server, f"{port}/data/runs")
        assert answer.json(), "TensorBoard shows no run"

    def _curl(self, words: list[str]) -> None:
        answer = json.loads(finish([word.replace("8080", self.ports["8080"]) for word in words]))
        assert set(answer["predictions"][0]) >= {"class", "label", "probabilities"}

    def _make(self, words: list[str]) -> None:
        said = finish([words[0], "-C", str(ROOT), "--dry-run", *words[1:]])
        assert "trainyard run mnist" in said

    def _serve(self, server: subprocess.Popen | Fork, path: str) -> requests.Response:
        """Return a server's response at `path`, once it is not empty."""
        self.servers.append(server)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            assert server.poll() is None, LOG.read_text()
            assert time.monotonic() < deadline, f"no answer from {path}: {LOG.read_text()}"
            try:
                answer = requests.get(f"http://127.0.0.1:{path}", timeout=5)
            except requests.ConnectionError:
                answer = None
            if answer and answer.text.strip() != "[]":
                return answer
            time.sleep(0.1)


def start_trainer(words: list[str], environment: dict[str, str]) -> Fork:
    """Start `python -m trainer.…` from a process that has imported TensorFlow."""
    forks = forks_with("tensorflow", "trainer.loop")
    return forks.start(words, log_path=LOG.absolute(), cwd=os.getcwd(), **environment)


def finish(call: list[str]) -> str:
    """Return the output of a program that must succeed."""
    done = subprocess.run(
        call, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def runner(service, tmp_path, monkeypatch, tiny_mnist, free_ports):
    """Provide a folder with the page's files, and a service with its jobs, model and endpoint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    jobs = {
        name: start_job(service, JOB.replace("SECONDS", seconds))
        for name, seconds in (("cancelled", "100"), ("short", "1"))
    }
    serve_mnist(service)
    runner = Runner(jobs=jobs, raw=tiny_mnist(), ports=free_ports)
    yield runner
    for server in runner.servers:
        server.kill()
        server.wait(10)


@pytest.fixture
def free_ports():
    """Return free ports for those that the page names."""
    sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in ("8080", "6006")}
    ports = {name: str(one.getsockname()[1]) for name, one in sockets.items()}
    for one in sockets.values():
        one.close()
    return ports


def start_job(service, code: str) -> str:
    container = {"imageUri": "i", "command": ["python", "-c", code]}
    pool = {"replicaCount": 1, "machineSpec": {"machineType": "m"}, "containerSpec": container}
    output = {"outputUriPrefix": os.path.abspath("job")}
    spec = {"workerPoolSpecs": [pool], "baseOutputDirectory": output}
    body = {"displayName": "mnist-1", "jobSpec": spec}
    return service.do("POST", f"{PARENT}/customJobs", body)["name"].rpartition("/")[2]


def serve_mnist(service) -> None:
    """Create two versions of a model and deploy the first."""
    folder = Path("artifact")
    folder.mkdir()
    container = {"imageUri": "i", "command": ["python", str(SERVER)]}
    model = {
        "displayName": "mnist",
        "artifactUri": str(folder.absolute()),
        "containerSpec": container,
    }
    name = service.do("POST", f"{PARENT}/models:upload", {"model": model})["model"]
    service.do("POST", f"{PARENT}/models:upload", {"model": model, "parentModel": name})
    endpoint = service.do("POST", f"{PARENT}/endpoints", {"displayName": "mnist"})["name"]
    deployed = {"deployedModel": {"model": f"{name}@1"}, "trafficSplit": {"0": 100}}
    service.do("POST", f"/v1/{endpoint}:deployModel", deployed)


def write_instances(command: str) -> None:
    """Return an instance for the server of a command: a digit, or the tiny server's number."""
    image = np.zeros((28, 28), int).tolist()
    instance = {"image": image} if command.startswith("curl") else 1
    Path("instances.json").write_text(json.dumps({"instances": [instance]}))
    Path("instances.jsonl").write_text(f"{json.dumps(instance)}\n")


def test_every_command_of_the_page_works(runner, capfd):
    failed = []
    for command in commands():
        write_instances(command)
        try:
            runner.run(command)
        except (Exception, SystemExit) as error:
            failed.append(f"{command}\n    {error}\n    {capfd.readouterr().err[-500:]}")
    assert not failed, "\n".join(failed)


def test_page_covers_every_old_command():
    old = " ".join(row[0] for row in rows())
    for name in (
        *("jobs submit training", "local train --distributed", "local predict", "jobs list"),
        *("jobs describe", "jobs stream-logs", "jobs cancel", "models create", "versions create"),
        *("versions set-default", "versions list", "versions delete", "predict --model"),
        *("--json-instances", "tensorboard --logdir", "create_records.py", "train-local.sh"),
        *("--train-steps", "--checkpoint-num-steps", "--num-gpus", "--job-dir", "TF_CONFIG"),
        *("--config", "--scale-tier", "--module-name"),
    ):
        assert name in old, name
    assert "--eval-steps" in PAGE.read_text()
