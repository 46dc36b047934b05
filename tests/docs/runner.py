"""Runs the commands of a page on tiny data, against a local service with something in it."""

import functools
import importlib.util
import json
import os
import re
import signal
import socket
import string
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import requests

from pipelines.cli import main
from pipelines.cli import parse as parse_trainyard
from pipelines.places.target import LOCAL_PROJECT
from tests.support.processes.everything import EVERYTHING
from tools.pages import ROOT
from trainer.config.model_settings import is_model_setting
from trainer.config.train_config import parse_flags
from vertex_local.cli import main as vertex_local
from vertex_local.tests.support.forks import Fork, forks_with
from vertex_local.tests.support.waiting import wait_until

TIMEOUT_SECONDS = 120
LOG = Path("programs.log")
TRAINER_FLAGS = ["--workload=mnist", "--examples-dir=examples"]
ASSIGNMENT = re.compile(r"[A-Z_]+=")
WAITING = ("--wait", "--follow", "--dry-run", "--quiet", "--json")

# Commands that are not run, with the reason; of those of trainyard the arguments are checked.
ONLY_PARSED = {
    "trainyard upload": "needs an Artifact Registry repository; test_registry.py runs it",
    "trainyard step": "needs a run with a training; whole_runs/test_plan.py runs it",
    "trainyard runs resume": "needs an interrupted training; test_resume.py runs it",
    "trainyard jobs evaluate": "needs a training; test_jobs_submit.py runs it",
    "trainyard reproduce": "needs a training; test_provenance.py runs it",
    "trainyard tune": "trains many times; test_tune.py runs it",
    "trainyard run cars --from": "needs a tuning job; test_tuning.py builds such a configuration",
    "trainyard predict": "needs a model; test_predict_files.py predicts, test_batch.py runs it",
    "trainyard models approve": "needs a model that a run evaluated; test_decisions.py runs it",
    "trainyard endpoints watch": "needs a log of requests; test_watch.py runs it",
    "trainyard check": "takes eight seconds; test_own_folder.py runs it",
    "vertex-local serve --containers": "needs a Docker engine; test_containers.py runs it",
}
NOT_RUN = {
    "gcloud": "needs a Google Cloud account",
    "pre-commit": "changes the checkout",
}
# What the service of the tests has instead of the endpoint of a page that makes its own.
STAND_INS = {
    **dict.fromkeys(("churn", "houses", "parcels"), "mnist"),
    **dict.fromkeys(("churn/instances.json", "houses/instances.json"), "instances.json"),
    **dict.fromkeys(("parcels/monday.json", "parcels/tuesday.json"), "instances.json"),
}
# Reduces the work of a command that would take minutes.
SMALL = {
    "components.prepare_examples --workload taxi": "--files {trips}",
    "components.prepare_examples --workload taxi --files": "",
    "components.prepare_examples --workload taxi --source bigquery": "--dry-run",
    "components.prepare_examples --workload mnist": "--trust-files --data-dir {mnist}",
    "components.prepare_examples --workload cifar10": "--trust-files --data-dir {cifar10}",
    "trainer.task": "--steps 1 --batch-size 8",
}


class Runner:
    """Runs command lines; an AssertionError says why one failed.

    Args:
        names: Placeholders of the pages, such as JOB, and their values in the service.
        raw: Folders of raw files by workload.
    """

    def __init__(self, *, names: dict[str, str], raw: dict[str, Path]) -> None:
        self.names, self.raw = names, raw
        self.variables: dict[str, str] = {}
        self.exported = {"GOOGLE_CLOUD_PROJECT": LOCAL_PROJECT}
        self.ports = {name: _free_port() for name in ("8080", "6006", "8085")}
        self.servers: list[Fork] = []

    def run(self, words: Sequence[str]) -> None:
        """Run a command line, given as its words."""
        if words[0] == "export" or all(ASSIGNMENT.match(word) for word in words):
            pairs = [word.split("=", 1) for word in words if "=" in word]
            assigned = {name: self.exported.get(name, value) for name, value in pairs}
            self.variables |= assigned
            if words[0] == "export":
                os.environ.update(assigned)
            return
        words = [string.Template(word).safe_substitute(self.variables) for word in words]
        environment = {}
        while ASSIGNMENT.match(words[0]):
            name, _, environment[name] = words.pop(0).partition("=")
        program = Path(words[0]).name.replace("-", "_")
        if words[0].startswith("--"):
            _check_trainer_flags(words)
        elif words[0] not in NOT_RUN:
            method = getattr(self, f"_{program}", None)
            assert method, f"no test runs {words[0]}"
            method(words, environment)

    def help(self, words: Sequence[str]) -> None:
        """Check that a command exists; it may lack arguments."""
        if words[0] == "make":
            self._make(words, {})
        elif words[0] == "python":
            _check_module(words)
        else:
            program = main if words[0] == "trainyard" else vertex_local
            cut = words.index("--") if "--" in words else len(words)
            assert _exit_code(program, [*words[1:cut], "--help"]) == 0

    def close(self) -> None:
        """End the servers."""
        for server in self.servers:
            server.kill()
            server.wait(10)

    def _trainyard(self, words: Sequence[str], environment: dict[str, str]) -> None:
        del environment
        job = self.names["LONG_JOB" if words[1:3] == ["jobs", "cancel"] else "JOB"]
        names = {**self.names, "JOB": job}
        if words[1] == "schedule":
            names["NAME"] = self.names["SCHEDULE"]
        if words[1] in ("endpoints", "models"):
            names |= STAND_INS
        words = [names.get(word, word) for word in words[1:]]
        is_package_address = any(word.startswith("https://") for word in words)
        if is_package_address or _is_listed(["trainyard", *words], ONLY_PARSED):
            parse_trainyard(words)
            return
        if words[:2] == ["schedule", "apply"] and "--dry-run" not in words:
            words.append("--dry-run")
        if words[0] == "run":  # tests/whole_runs runs it
            parse_trainyard(words)
            words[0] = "submit"
        if "submit" in words:
            words = [word for word in words if word not in WAITING]
            words.insert(words.index("submit") + 2, "--dry-run")
            words += ["--json"] * (words[0] == "submit")
        assert _exit_code(main, words) == 0

    def _vertex_local(self, words: Sequence[str], environment: dict[str, str]) -> None:
        if _is_listed(words, ONLY_PARSED):
            self.help(words)
            return
        if words[1] != "serve":
            assert _exit_code(vertex_local, words[1:]) == 0
            return
        root = Path(words[words.index("--root") + 1])
        words = [self.ports.get(word, word) for word in words]
        service = forks_with(*EVERYTHING).start(
            ["python", "-m", "vertex_local.cli", *words[1:]], log_path=LOG.absolute(), **environment
        )
        self.servers.append(service)
        wait_until(lambda: (root / "server.json").is_file() or service.poll() is not None)
        service.send_signal(signal.SIGTERM)
        assert service.wait(TIMEOUT_SECONDS) == 0, LOG.read_text()

    def _python(self, words: Sequence[str], environment: dict[str, str]) -> None:
        if words[1].endswith(".py"):  # a file of the page
            _finish([sys.executable, *words[1:]])
            return
        _check_module(words)
        if words[2].startswith("benchmarks."):  # minutes; `make bench` runs them
            return
        if "--help" in words:
            assert _start_module(words, environment).wait(TIMEOUT_SECONDS) == 0, LOG.read_text()
        elif words[2] == "trainer.serve":
            port = self.ports[environment["AIP_HTTP_PORT"]]
            server = _start_module(words, {**environment, "AIP_HTTP_PORT": port})
            self._ask(server, f"{port}/health")
        elif words[2].startswith("tools."):  # counted for a night
            return
        else:
            text = " ".join(words[2:])
            small = max((name for name in SMALL if text.startswith(name)), key=len)
            cut = words.index("--") if "--" in words else len(words)
            raw = {**self.raw, "trips": self.names["TRIPS"]}
            words = [*words[:cut], *SMALL[small].format(**raw).split(), *words[cut:]]
            if "/data/*.csv.gz" in words:
                words[words.index("/data/*.csv.gz")] = self.names["TRIPS"]
            program = _start_module(words, environment)
            assert program.wait(TIMEOUT_SECONDS) == 0, LOG.read_text()

    def _tensorboard(self, words: Sequence[str], environment: dict[str, str]) -> None:
        del environment
        port = self.ports["6006"]
        server = _start_module(["python", "-m", "tensorboard.main", *words[1:], "--port", port], {})
        assert self._ask(server, f"{port}/data/runs").json(), "TensorBoard shows no run"

    def _curl(self, words: Sequence[str], environment: dict[str, str]) -> None:
        del environment
        response = _finish([word.replace("8080", self.ports["8080"]) for word in words])
        assert set(json.loads(response)["predictions"][0]) >= {"class", "label", "probabilities"}

    def _make(self, words: Sequence[str], environment: dict[str, str]) -> None:
        del environment  # CI runs the targets
        if list(words[1:]) == ["setup"]:  # make runs its recipe even now, because it has $(MAKE)
            assert "\nsetup: " in (ROOT / "Makefile").read_text()
        else:
            assert _dry_run(*words)

    def _sed(self, words: Sequence[str], environment: dict[str, str]) -> None:
        del environment
        _finish(words)

    def _pytest(self, words: Sequence[str], environment: dict[str, str]) -> None:
        del environment  # for a night
        files = [word for word in words if word.endswith(".py")]
        assert files
        assert all((ROOT / file).is_file() for file in files), files

    def _ask(self, server: Fork, path: str) -> requests.Response:
        """Return a server's response at `path`, once it is not empty."""
        self.servers.append(server)

        def response() -> requests.Response | None:
            assert server.poll() is None, LOG.read_text()
            with suppress(requests.ConnectionError, requests.Timeout):
                found = requests.get(f"http://127.0.0.1:{path}", timeout=5)
                return found if found.ok and found.text.strip() != "[]" else None

        return wait_until(response, f"{path}, {LOG}", timeout_seconds=TIMEOUT_SECONDS)


def write_instances(command: str) -> None:
    """Write what the server that a command asks accepts: a digit, or the tiny server's number."""
    image = np.zeros((28, 28), int).tolist()
    instance = {"image": image} if command.startswith("curl") else 1
    text = json.dumps({"instances": [instance]})
    for name in ("instances.json", "FILE"):
        Path(name).write_text(text)
    Path("instances.jsonl").write_text(f"{json.dumps(instance)}\n")


def _check_trainer_flags(words: Sequence[str]) -> None:
    given = parse_flags([*TRAINER_FLAGS, *words])
    flags = [word for word in words if word.startswith("--") and not is_model_setting(word[2:])]
    names = [flag[2:].replace("-", "_") for flag in flags]
    assert all(hasattr(given, name) for name in names), "an abbreviated flag"


def _check_module(words: Sequence[str]) -> None:
    assert words[1] == "-m", f"no test runs {words}"
    assert importlib.util.find_spec(words[2]), f"there is no module {words[2]}"


def _is_listed(words: Sequence[str], commands: Iterable[str]) -> bool:
    """Return whether the words begin as a listed command and have its options."""
    for command in commands:
        listed = command.split()
        verbs = [word for word in listed if not word.startswith("--")]
        if list(words[: len(verbs)]) == verbs and set(listed) <= set(words):
            return True
    return False


def _exit_code(program: object, words: Sequence[str]) -> int:
    try:
        return program(list(words))
    except SystemExit as error:
        return error.code


def _start_module(words: Sequence[str], environment: dict[str, str]) -> Fork:
    """Start `python -m MODULE …` in a process that has TensorFlow and Beam."""
    forks = forks_with(*EVERYTHING)
    return forks.start(list(words), log_path=LOG.absolute(), cwd=os.getcwd(), **environment)


def _finish(call: Sequence[str]) -> str:
    """Return what a program prints; it must succeed."""
    done = subprocess.run(
        call, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@functools.cache
def _dry_run(make: str, *words: str) -> str:
    """Return the recipes of a target; those that have $(MAKE) are run, which takes seconds."""
    return _finish([make, "-C", str(ROOT), "--dry-run", "--always-make", *words])


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return str(one.getsockname()[1])
