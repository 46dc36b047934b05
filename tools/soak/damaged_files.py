"""Damaged files of a small state: is each damage harmless, or noticed with the file's name?

    python -m tools.soak.damaged_files --seed 1

A service's state (database, journals of runs, step cache, folders) and a training's files
(examples, checkpoints, exported model) are made once. Then one file after the other is damaged, and
used as a user would: the service starts, lists everything and repeats the run; the training
continues; the model is served. Prints a table, and a line for each damage that was neither harmless
nor noticed with the name of the file and what to do; the exit code is 0 if there is none.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml
from kfp import compiler, dsl

from components.model_version.companions import (
    COMPANIONS,
    RUN_DIGESTS_FILE,
    read_companion_object,
    write_companion,
)
from tests.support.processes.everything import EVERYTHING
from tests.support.processes.replicas import free_ports, write_examples
from trainer.serving.digests import DIGESTS_FILE
from vertex_local.machine import lost_and_found
from vertex_local.tests.support.forks import forks_with
from vertex_local.tests.support.service import (
    PRELOAD_KFP,
    RunningService,
    container_spec,
    running_service,
)

RUN_SECONDS = 120
TRAIN_FLAGS = ("--workload", "mnist", "--batch-size", "32", "--checkpoint-every-steps", "10")
REMEDY = re.compile(
    r"restore|again|prepare|remove|delete|move |give |use |choose|repeat|--fresh|--no-cache|"
    r"kept|ignored|skipped|instead"
)
OUTCOMES = ("harmless", "noticed", "without its name", "without a remedy", "silently", "hung")


@dsl.component(base_image="python:3.11")
def echo(text: str) -> str:
    """Return a text."""
    return text


@dsl.pipeline(name="echoes")
def echoes(text: str = "hello") -> None:
    """Echo a text."""
    echo(text=text)


def damages(chance: random.Random, *, is_json: bool) -> dict[str, Callable[[bytes], bytes | None]]:
    """Return functions from the content of a file to its damaged content, None to remove it."""

    def flip(data: bytes) -> bytes:
        position = chance.randrange(len(data))
        return data[:position] + bytes([data[position] ^ 0x15]) + data[position + 1 :]

    any_file: dict[str, Callable[[bytes], bytes | None]] = {
        "byte": flip,
        "cut": lambda data: data[: chance.randrange(1, len(data))],
        "empty": lambda data: b"",
        "random": lambda data: chance.randbytes(len(data)),
        "removed": lambda data: None,
    }
    of_json: dict[str, Callable[[bytes], bytes | None]] = {
        "not UTF-8": lambda data: data[: len(data) // 2] + b"\xff" + data[len(data) // 2 :],
        "[]": lambda data: b"[]\n",
        "{}": lambda data: b"{}\n",
    }
    return {**any_file, **(of_json if is_json else {})}


@dataclass(frozen=True)
class Result:
    """Outcome of the use of a state: what it gave, and everything that it said."""

    value: Any
    text: str


@dataclass(frozen=True)
class Area:
    """Files of one kind, below the folder of a state, and the use that shows their damages."""

    name: str
    files: tuple[str, ...]
    state: Path
    use: Callable[[Path], Result]
    is_json: bool = False
    whole: str = ""  # folder of a model, which has digests and is copied or exported as a whole


def use_service(folder: Path) -> Result:
    """Start the service of FOLDER/vertex, read everything, repeat the run and stop."""
    root = folder / "vertex"
    service = RunningService(root, PRELOAD_KFP)
    service.session.trust_env = False
    (root / "serve.log").unlink(missing_ok=True)
    said = ""
    value: Any = None
    try:
        service.start()
        value = {kind: _names(service, kind) for kind in ("models", "endpoints", "customJobs")}
        run = service.call("GET", "pipelineJobs/first").json()
        said += json.dumps(run.get("error", ""))
        details = run.get("jobDetail", {}).get("taskDetails", [])
        value["first"] = [(task["taskName"], task["state"]) for task in details]
        value["listed"] = len(service.do("GET", "pipelineJobs")["pipelineJobs"])
        again = run_pipeline(service, folder, "again")
        said += json.dumps(again.get("error", ""))
        value["again"] = again["state"]
    except (AssertionError, KeyError, TypeError, requests.RequestException) as error:
        value = f"failed: {error}"
        said += str(error)
    finally:
        service.session.close()
        if service.process and service.process.poll() is None:
            service.stop()
    for path in (*root.glob("serve.log"), *root.glob("pipelines/*/pipeline.log")):
        said += path.read_text(errors="replace")
    return Result(value, said + "\n".join(lost_and_found.notes(root)))


def _names(service: RunningService, kind: str) -> list[str]:
    return sorted(one["name"] for one in service.do("GET", kind).get(kind, []))


def run_pipeline(service: RunningService, folder: Path, name: str) -> dict[str, Any]:
    """Run the pipeline; return the run at its end."""
    body = {
        "displayName": name,
        "pipelineSpec": yaml.safe_load((folder / "pipeline.yaml").read_text()),
        "runtimeConfig": {"gcsOutputDirectory": str(folder / "runs")},
    }
    service.do("POST", "pipelineJobs", body, params={"pipelineJobId": name})
    deadline = time.monotonic() + RUN_SECONDS
    while (run := service.do("GET", f"pipelineJobs/{name}"))["state"].endswith(
        ("ING", "UNSPECIFIED")
    ):
        assert time.monotonic() < deadline, f"{name} has not ended"
        time.sleep(0.1)
    return run


def make_service_state(folder: Path, *, kills: bool) -> None:
    """Make the state of a service with a model, endpoints, a job and a run; stop or kill it."""
    compiler.Compiler().compile(echoes, str(folder / "pipeline.yaml"))
    artifact = folder / "artifact"
    artifact.mkdir()
    (artifact / "saved_model.pb").write_bytes(b"model bytes")
    with running_service(folder / "vertex", *PRELOAD_KFP) as service:
        if kills:
            service.stop()
            service.start()
        run_pipeline(service, folder, "first")
        model = {
            "displayName": "tiny",
            "artifactUri": str(artifact),
            "containerSpec": container_spec(),
        }
        service.do("POST", "models:upload", {"model": model})
        for number in range(6):
            service.do("POST", "endpoints", {"displayName": f"e{number}"})
        machine = {"machineType": "n1-standard-4"}
        container = {"imageUri": "i", "command": ["true"]}
        pool = {"replicaCount": 1, "machineSpec": machine, "containerSpec": container}
        body = {"displayName": "j", "jobSpec": {"workerPoolSpecs": [pool]}}
        job = service.do("POST", "customJobs", body)
        while service.do("GET", f"/v1/{job['name']}")["state"].endswith("ING"):
            time.sleep(0.1)
        if kills:
            service.kill()


def train(folder: Path) -> tuple[int, str]:
    """Train, or continue a training; return the exit code and the log."""
    flags = ("--examples-dir", str(folder / "examples"), "--output-dir", str(folder / "out"))
    return _run(folder, "trainer.task", *TRAIN_FLAGS, *flags, "--steps", "40")


def _run(folder: Path, module: str, *arguments: str, **environ: str) -> tuple[int, str]:
    log_path = folder / "log"
    log_path.unlink(missing_ok=True)
    words = ["python", "-m", module, *arguments]
    process = forks_with(*EVERYTHING).start(words, log_path=log_path, **environ)
    try:
        code = process.wait(RUN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
        code = -1
    return code, log_path.read_text(errors="replace")


def use_training(folder: Path) -> Result:
    """Continue the training; its weights are the value."""
    code, log = train(folder)
    exported = folder / "out" / "model" / "variables" / "variables.data-00000-of-00001"
    value = (code, exported.read_bytes() if code == 0 and exported.exists() else b"")
    return Result(value if code >= 0 else None, log)


def use_model(folder: Path) -> Result:
    """Serve the exported model, and predict."""
    (port,) = free_ports(1)
    log_path = folder / "log"
    log_path.unlink(missing_ok=True)
    environ = {
        "AIP_STORAGE_URI": f"file://{folder / 'model'}",
        "AIP_HTTP_HOST": "127.0.0.1",
        "AIP_HTTP_PORT": str(port),
        "AIP_HEALTH_ROUTE": "/health",
        "AIP_PREDICT_ROUTE": "/predict",
    }
    words = ["python", "-m", "trainer.serve"]
    process = forks_with(*EVERYTHING).start(words, log_path=log_path, **environ)
    value: Any = "not served"
    deadline = time.monotonic() + RUN_SECONDS
    with closing(requests.Session()) as session:
        session.trust_env = False
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(requests.RequestException):
                if session.get(f"http://127.0.0.1:{port}/health", timeout=5).ok:
                    body = {"instances": [[[9 * row] * 28 for row in range(28)]]}
                    url = f"http://127.0.0.1:{port}/predict"
                    value = session.post(url, json=body, timeout=30).json()
                    break
            time.sleep(0.05)
    is_hung = process.poll() is None and value == "not served"
    process.terminate()
    process.wait(30)
    return Result(None if is_hung else value, log_path.read_text(errors="replace"))


def use_companions(folder: Path) -> Result:
    """Read the files that a run has written beside its model."""
    values: list[Any] = []
    said = ""
    for name in sorted(COMPANIONS):
        try:
            values.append(read_companion_object(str(folder), name))
        except Exception as error:  # a step prints it
            values.append("failed")
            said += f"{error}\n"
    return Result(values, said)


def make_companions(folder: Path) -> None:
    """Write the files beside a model."""
    feature = {"type": "number", "mean": 1.5, "num_missing": 0}
    for name in sorted(COMPANIONS):
        write_companion(str(folder), name, {"splits": {"x": feature}, "predictions": [2.5]})


def make_training_state(folder: Path) -> None:
    """Prepare examples and train; remove what a training killed at step 30 would not have made."""
    (folder / "examples").mkdir()
    write_examples(folder / "examples")
    code, log = train(folder)
    assert code == 0, log
    checkpoints = folder / "out" / "checkpoints"
    (checkpoints / "job-ended.json").unlink()
    shutil.rmtree(max(checkpoints.glob("step-*")))
    (folder / "out" / "model").rename(folder / "model")


def judge(result: Result, expected: Result, *, file: Path, whole: Path) -> str:
    """Return the outcome of a damage of a file, or of a folder that is used as a whole."""
    if result.value is None:
        return "hung"
    if result.value == expected.value:
        return "harmless"
    new = set(result.text.splitlines()) - set(expected.text.splitlines())
    names = {file.name, str(file.parent), str(whole)}
    lines = [line for line in new if any(name in line for name in names)]
    if not new:
        return "silently"
    if not lines:
        return "without its name"
    return "noticed" if any(map(REMEDY.search, new)) else "without a remedy"


def areas(home: Path) -> Iterator[Area]:
    """Make the states, and yield the areas."""
    for name in ("stopped", "killed"):
        (home / name).mkdir()
        make_service_state(home / name, kills=name == "killed")
    stopped, killed, training = home / "stopped", home / "killed", home / "training"
    training.mkdir()
    make_training_state(training)
    last = max((training / "out" / "checkpoints").glob("step-*")).relative_to(training)
    yield Area("database", ("vertex/vertex.db",) * 3, stopped, use_service)
    yield Area("journal (WAL)", ("vertex/vertex.db-wal",) * 3, killed, use_service)
    yield Area(
        "run's journal", ("vertex/pipelines/first/events.jsonl",), stopped, use_service, True
    )
    companions = home / "companions"
    companions.mkdir()
    make_companions(companions)
    beside = (*sorted(COMPANIONS), RUN_DIGESTS_FILE)
    yield Area("beside a model", beside, companions, use_companions, True, whole=".")
    yield Area("step cache", ("vertex/step_cache/*.json",), stopped, use_service, True)
    files = (
        "vertex/pipelines/first/state.json",
        "vertex/jobs/*/state.json",
        "vertex/vertex.reserve",
    )
    yield Area("folders", files, stopped, use_service)
    yield Area("manifest", ("examples/manifest.json",), training, use_training, True)
    shards = ("examples/train-00001*", "examples/eval-*")
    yield Area("examples", shards, training, use_training)
    checkpoint = (f"{last}/checkpoint.json", f"{last}/state.data*", f"{last}/state.index")
    yield Area("checkpoint", checkpoint, training, use_training)
    model = ("saved_model.pb", "fingerprint.pb", "variables/*.data*", "variables/*.index")
    of_model = tuple(f"model/{name}" for name in model)
    yield Area("model", of_model * 3, training, use_model, whole="model")
    described = ("model/workload.json", f"model/{DIGESTS_FILE}")
    yield Area("model's JSON", described, training, use_model, True, whole="model")


class Trial:
    """State that is restored from a copy before each damage, since it contains its own path."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._copy = state.with_name(f"{state.name}-copy")
        shutil.copytree(state, self._copy, symlinks=True)

    def restore(self) -> None:
        """Restore the state."""
        shutil.rmtree(self.state)
        shutil.copytree(self._copy, self.state, symlinks=True)

    def damage(self, pattern: str, change: Callable[[bytes], bytes | None]) -> Path:
        """Restore the state but for one damaged file; return its path."""
        self.restore()
        path = min(self.state.glob(pattern))
        data = change(path.read_bytes())
        path.unlink() if data is None else path.write_bytes(data)
        return path


def count(area: Area, chance: random.Random) -> tuple[Counter[str], list[str]]:
    """Try each damage of an area; return the outcomes, and a line for each that is not right."""
    trial = Trial(area.state)
    expected = area.use(area.state)
    outcomes: Counter[str] = Counter()
    problems = []
    for pattern in area.files:
        for kind, change in damages(chance, is_json=area.is_json).items():
            path = trial.damage(pattern, change)
            result = area.use(area.state)
            whole = area.state / area.whole if area.whole else path
            outcome = judge(result, expected, file=path, whole=whole)
            outcomes[outcome] += 1
            # A digit that changes in a JSON file without a checksum cannot be noticed.
            is_digit = (outcome, kind, area.is_json, area.whole) == ("silently", "byte", True, "")
            if outcome not in ("harmless", "noticed") and not is_digit:
                words = " | ".join(result.text.splitlines()[-4:])[-600:]
                problems.append(f"{area.name}, {path.name}, {kind}: {outcome}: {words}")
    trial.restore()
    shutil.rmtree(area.state.with_name(f"{area.state.name}-copy"))
    return outcomes, problems


def main() -> int:
    """Parse the command line, try all damages and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--areas", nargs="+", help="names of areas; default: all")
    arguments = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    chance = random.Random(arguments.seed)
    table: dict[str, Counter[str]] = defaultdict(Counter)
    problems = []
    with tempfile.TemporaryDirectory(prefix="damaged-") as name:
        for area in areas(Path(name)):
            if arguments.areas and area.name not in arguments.areas:
                continue
            table[area.name], bad = count(area, chance)
            problems += bad
            _print(f"{area.name:16}" + "".join(f"{table[area.name][one]:>18}" for one in OUTCOMES))
    _print(f"{'':16}" + "".join(f"{one:>18}" for one in OUTCOMES))
    total = sum(table.values(), Counter())
    _print(f"{total.total():<16}" + "".join(f"{total[one]:>18}" for one in OUTCOMES))
    for line in problems:
        _print(line)
    return 1 if problems else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
