"""A tiny dataset in the examples folder's format, and replicas as real processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.data.examples import make_example, write_split
from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import Fork, forks_with

SPLITS = {"train": (512, 3), "eval": (100, 1), "test": (100, 1)}
WAIT_SECONDS = 120


@pytest.fixture(scope="session")
def examples_dir(tmp_path_factory):
    """Write examples for all tests."""
    return write_examples(tmp_path_factory.mktemp("examples"))


def write_examples(folder):
    """Write ten made-up digits, each a bright square at its own place; return the folder."""
    random = np.random.default_rng(7)
    splits = {
        name: write_split(folder, name, make_digits(count, random), num_shards=num_shards)
        for name, (count, num_shards) in SPLITS.items()
    }
    manifest = {
        "workload": "mnist",
        "compression": "GZIP",
        "split_rule": "made up",
        "sources": [],
        "splits": splits,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def make_digits(count, random):
    labels = random.integers(0, 10, count)
    images = random.integers(0, 60, (count, 28, 28))
    for image, label in zip(images, labels, strict=True):
        row, column = 4 + 12 * (label // 5), 2 + 5 * (label % 5)
        image[row : row + 8, column : column + 4] += 190
        pixels = image.astype(np.uint8).tobytes()
        yield make_example({"image": pixels, "label": int(label)})


@pytest.fixture
def expect_own_predictions(examples_dir):
    """Check that an exported model has the metrics that the trainer measured."""
    from tests.support.data.evaluation import evaluate

    def check(out, *, is_best=False):
        lines = map(json.loads, (out / "logs/metrics.jsonl").read_text().splitlines())
        measured = [line for line in lines if line["split"] == "eval"]
        ours = min(measured, key=lambda line: line["loss"]) if is_best else measured[-1]
        metrics = evaluate(str(out / "model"), str(examples_dir), split="eval").metrics
        assert metrics["loss"] == pytest.approx(ours["loss"], rel=1e-4, abs=1e-6)
        assert metrics["accuracy"] == pytest.approx(ours["accuracy"])

    return check


@dataclass
class Replica:
    """A process and its log file."""

    name: str
    process: "subprocess.Popen | Fork"
    log_path: Path
    start_again: Callable[[], "Replica"]

    def kill(self):
        """Kill the process as the kernel does, and wait for its end."""
        self.process.kill()
        self.process.wait(60)

    @property
    def log(self):
        return self.log_path.read_text()

    def wait(self, timeout_seconds=WAIT_SECONDS):
        """Return the exit code; fail with the log if the process does not end."""
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} has not ended within {timeout_seconds} s:\n{self.log}")

    def wait_for(self, text, timeout_seconds=WAIT_SECONDS):
        """Wait until the log has the text."""
        deadline = time.monotonic() + timeout_seconds
        while text not in self.log:
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{self.name} has not logged {text!r}:\n{self.log}")
            time.sleep(0.05)


@pytest.fixture
def start(tmp_path):
    """Start `python -m MODULE …` as a replica, which is killed at the end of the test.

    It is a fork; with `is_new` a new interpreter, as when a user types the command. Killed or not,
    it must leave no temporary file.
    """
    started = []
    temp = tmp_path / "temp"
    temp.mkdir()

    def start_replica(name, *args, module="trainer.task", is_new=False, **environ):
        log_path = tmp_path / f"{name.replace('/', '-')}-{len(started)}.log"
        words = ["python", "-m", module, *map(str, args)]
        begin = start_interpreter if is_new else forks_with(*EVERYTHING).start
        process = begin(words, log_path=log_path, TMPDIR=str(temp), **environ)
        started.append(process)

        def again():
            return start_replica(name, *args, module=module, is_new=is_new, **environ)

        return Replica(name, process, log_path, again)

    yield start_replica
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
    assert list(temp.iterdir()) == []


def start_interpreter(words, *, log_path, **environ):
    """Start a program that imports its modules itself."""
    with log_path.open("w") as log:
        return subprocess.Popen(
            [sys.executable, *words[1:]],
            env={**os.environ, "TF_CONFIG": "", **environ},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@pytest.fixture
def start_cluster(start):
    """Start a replica for each task of a cluster; return them by name.

    Those in `later` are not started: in their place is a function that starts it.
    """

    def start_all(
        *args, num_chiefs=1, num_workers=2, num_ps=1, num_evaluators=0, later=frozenset()
    ):
        sizes = {"ps": num_ps, "worker": num_workers, "chief": num_chiefs}
        ports = iter(free_ports(sum(sizes.values())))
        cluster = {
            job: [f"127.0.0.1:{next(ports)}" for _ in range(size)]
            for job, size in sizes.items()
            if size
        }
        replicas = {}
        for job, size in {**sizes, "evaluator": num_evaluators}.items():
            for index in range(size):
                config = {"cluster": cluster, "task": {"type": job, "index": index}}
                name = f"{job}/{index}"
                begin = partial(start, name, *args, TF_CONFIG=json.dumps(config))
                replicas[name] = begin if name in later else begin()
        return replicas

    return start_all


@pytest.fixture
def port():
    """A port that was free a moment ago."""
    return free_ports(1)[0]


def free_ports(count):
    """Return ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports
