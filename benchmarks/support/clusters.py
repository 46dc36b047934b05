"""Training clusters for the benchmarks: real processes, pinned to cores, and their metrics.

Not a benchmark itself.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

CACHE = Path(".trainyard/bench")
JOB_TIMEOUT_SECONDS = 1800
ROLES = ("chief", "worker", "ps")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Number of replicas, and the cores of each; a single chief has no TF_CONFIG."""

    chiefs: int = 1
    workers: int = 0
    ps: int = 0
    cores: dict[str, list[int]] = field(default_factory=dict)

    @property
    def replicas(self) -> list[str]:
        """The names of the replicas, such as `chief/0` and `worker/0`, the chief first."""
        counts = dict(zip(ROLES, (self.chiefs, self.workers, self.ps), strict=True))
        return [f"{role}/{index}" for role in ROLES for index in range(counts[role])]


@dataclass(frozen=True)
class Result:
    """Result of a job: its wall-clock time in seconds, and the lines of its metrics.jsonl."""

    seconds: float
    lines: list[dict[str, Any]]

    @property
    def examples_per_second(self) -> float:
        """Throughput over the second half of the steps, which excludes the start."""
        reports = [line for line in self.lines if line["split"] == "train"]
        half = reports[-1]["step"] / 2
        examples = seconds = 0.0
        for before, after in pairwise(reports):
            if before["step"] >= half:
                took = after["step_ms"] * (after["step"] - before["step"]) / 1000
                examples, seconds = examples + after["examples_per_second"] * took, seconds + took
        return examples / seconds

    @property
    def accuracy(self) -> float:
        """Final accuracy on the eval split."""
        return float([line for line in self.lines if line["split"] == "eval"][-1]["accuracy"])


def examples(workload: str) -> Path:
    """Return the folder of a workload's prepared examples; prepare them once."""
    folder = CACHE / workload
    if not (folder / "manifest.json").exists():
        command = ["-m", "components.prepare_examples", "--workload", workload]
        cache = Path(".trainyard/cache") / workload
        cache.mkdir(parents=True, exist_ok=True)
        data = ["--data-dir", str(cache), "--output-dir", str(folder)]
        subprocess.run([sys.executable, *command, *data], check=True, stdout=sys.stderr)
    return folder


def test_metrics(folder: Path, examples_dir: Path) -> dict[str, float]:
    """Return the metrics on the test split of a job's model, by the pipeline's evaluation."""
    from components.evaluate.held_out import read_held_out
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    from trainer.serving.export import load_predictor

    predictor = load_predictor(str(folder / "model"))
    return read_held_out(str(examples_dir), predictor).score().metrics


def train(
    shape: Shape, *flags: str, workload: str = "mnist", examples_dir: Path | None = None
) -> Result:
    """Run a job to its end in a temporary folder."""
    with scratch() as folder:
        return train_in(folder, shape, *flags, workload=workload, examples_dir=examples_dir)


def train_in(
    folder: Path,
    shape: Shape,
    *flags: str,
    workload: str = "mnist",
    examples_dir: Path | None = None,
) -> Result:
    """Run a job to its end; its output stays in `folder`."""
    began = time.perf_counter()
    with ExitStack() as stack:
        replicas = start(
            *(stack, folder, shape, *flags),
            workload=workload,
            examples_dir=examples_dir,
        )
        code = replicas[shape.replicas[0]].wait(JOB_TIMEOUT_SECONDS)
    if code != 0:
        log = folder / f"{shape.replicas[0].replace('/', '-')}.log"
        raise RuntimeError(f"the job failed with code {code}:\n{log.read_text()[-3000:]}")
    return Result(time.perf_counter() - began, read_metrics(folder))


def start(
    stack: ExitStack,
    folder: Path,
    shape: Shape,
    *flags: str,
    workload: str = "mnist",
    examples_dir: Path | None = None,
) -> dict[str, "subprocess.Popen[bytes]"]:
    """Start every replica of a job; those still running are killed when the stack is closed.

    Without `examples_dir` the workload's own examples are prepared once.
    """
    addresses = {name: f"127.0.0.1:{port}" for name, port in free_ports(shape.replicas).items()}
    command = ["-m", "trainer.task", "--workload", workload]
    folders = [
        "--examples-dir",
        str(examples_dir or examples(workload)),
        "--output-dir",
        str(folder),
    ]
    started = {}
    for name in shape.replicas:
        with (folder / f"{name.replace('/', '-')}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command, *folders, *flags],
                env={**os.environ, "TF_CONFIG": tf_config(addresses, name)},
                stdout=log,
                stderr=log,
            )
        stack.callback(_kill, process)
        if name in shape.cores:
            os.sched_setaffinity(process.pid, shape.cores[name])
        started[name] = process
    return started


def tf_config(addresses: dict[str, str], name: str) -> str:
    """Return the TF_CONFIG of one replica; empty for a single one."""
    if len(addresses) == 1:
        return ""
    cluster: dict[str, list[str]] = {}
    for replica, address in addresses.items():
        cluster.setdefault(replica.split("/")[0], []).append(address)
    role, index = name.split("/")
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": int(index)}})


def free_ports(names: list[str]) -> dict[str, int]:
    """Return a free port for each name."""
    with ExitStack() as stack:
        sockets = {name: stack.enter_context(socket.socket()) for name in names}
        for listener in sockets.values():
            listener.bind(("127.0.0.1", 0))
        return {name: listener.getsockname()[1] for name, listener in sockets.items()}


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return every line of a job's metrics.jsonl."""
    text = (folder / "logs" / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="trainyard-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
    process.wait(30)
