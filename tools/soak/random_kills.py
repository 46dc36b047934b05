"""Whole runs of which processes are killed at random: what is served, and what is left.

    python -m tools.soak.random_kills --kills 100

Each run trains on few images and would be promoted. At a random moment one of its processes, half
of them or all are killed, stopped for seconds, or the command gets a signal. Then a service starts
on the same state. The exit code is 0 if each time no run or job was unfinished soon after, one
version was the default and had all traffic, no candidate was deployed or registered, and no process
or temporary folder was left. Every fifth run is not disturbed and must succeed.
"""

import argparse
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil

from components.model_version.registry import DEFAULT, is_candidate, list_versions
from components.shared.vertex.api import VertexApi, connect
from pipelines.resources.kinds import JOB, RUN
from tests.conftest import write_mnist
from tests.support.processes.whole_runs import RUN_TIMEOUT_SECONDS, Home
from tools.soak.bad_day import _environment
from vertex_local.tests.support.forks import Fork

KEPT = ("--keep-endpoint", "--set", "thresholds.accuracy=0", "--set", "gate.min_gain=-2")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP_SECONDS = 5
SETTLE_SECONDS = 120
UNDISTURBED = 5  # every n-th run


def disturb(home: Home, run: Fork, chance: random.Random) -> str:
    """Kill, stop or signal processes of a run; return what was done."""
    kind = chance.choice(["one", "one", "one", "half", "all", "stop", "signal"])
    if kind == "signal":
        number = chance.choice(SIGNALS)
        run.send_signal(number)
        return number.name
    processes = sorted(home.processes(), key=lambda process: process.pid)
    chosen = {
        "one": lambda: chance.sample(processes, k=min(1, len(processes))),
        "half": lambda: [process for process in processes if chance.random() < 0.5],
    }.get(kind, lambda: processes)()
    words = f"{kind}: {len(chosen)} of {len(processes)}"
    if kind == "one" and chosen:
        words = _command(chosen[0])
    for process in chosen:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend() if kind == "stop" else process.kill()
    if kind == "stop":
        time.sleep(STOP_SECONDS)
        for process in chosen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
    return words


def problems_of(home: Home) -> list[str]:
    """Start the service anew on the state; return what is not as it should be, also after its end.

    An endpoint that is kept keeps the service of the run.
    """
    stop = ["stop", "--root", str(home.state / "vertex")]
    home.start(*stop, module="vertex_local.cli").communicate(SETTLE_SECONDS)
    with home.serving():
        url = json.loads((home.state / "vertex" / "server.json").read_text())["url"]
        with _environment(url):
            api = connect("local", "us-central1")
            problems = _unfinished(api) or _wrongly_served(api)
    deadline = time.monotonic() + SETTLE_SECONDS
    while home.processes() and time.monotonic() < deadline:
        time.sleep(0.2)
    left = [f"process {_command(process)}" for process in home.processes()]
    return [*problems, *left, *(f"left {path}" for path in home.temp.iterdir())]


def _unfinished(api: VertexApi) -> list[str]:
    """Return the runs and jobs that do not end in time."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        names = [
            body["name"]
            for kind, collection in ((RUN, "pipelineJobs"), (JOB, "customJobs"))
            for body in api.list_resources(collection)
            if not kind.is_final(body)
        ]
        if not names or time.monotonic() > deadline:
            return [f"{name} is unfinished" for name in names]
        time.sleep(0.2)


def _wrongly_served(api: VertexApi) -> list[str]:
    models, endpoints = list(api.list_resources("models")), list(api.list_resources("endpoints"))
    if (len(models), len(endpoints)) != (1, 1):
        return [f"{len(models)} models, {len(endpoints)} endpoints"]
    versions = list_versions(api, models[0]["name"].partition("@")[0])
    defaults = [one["versionId"] for one in versions if DEFAULT in one.get("versionAliases", [])]
    candidates = [version["versionId"] for version in versions if is_candidate(version)]
    shares = [  # a version may be deployed twice
        (deployed["modelVersionId"], endpoints[0]["trafficSplit"].get(deployed["id"], 0))
        for deployed in endpoints[0].get("deployedModels", [])
    ]
    if len(defaults) == 1 and not candidates and shares == [(defaults[0], 100)]:
        return []
    return [f"default {defaults}, candidates {candidates}, served {shares}"]


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline()[:4]).strip()[:80]
    return "(has ended)"


def run_undisturbed(home: Home, number: int) -> tuple[float, list[str]]:
    """Run the pipeline; return its seconds, and what is wrong."""
    began = time.monotonic()
    code, output = home.run(*KEPT, "--set", f"train.seed={number}")
    seconds = time.monotonic() - began
    return seconds, [] if code == 0 else [f"exit code {code}: {output[-3000:]}"]


def run_disturbed(home: Home, number: int, chance: random.Random, longest: float) -> str:
    """Run the pipeline and disturb it at a random moment; return what was done."""
    run = home.start_run(*KEPT, "--set", f"train.seed={number}")
    time.sleep(chance.uniform(0.2, longest))
    words = disturb(home, run, chance)
    run.communicate(timeout=RUN_TIMEOUT_SECONDS + SETTLE_SECONDS)
    return words


def main() -> int:
    """Run, disturb and count; print one JSON object a run and one in the end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    arguments = parser.parse_args()
    chance, num_passed = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory(prefix="random-kills-") as folder:
        home = Home(Path(folder, "home"), write_mnist(Path(folder, "mnist"), num_train=64))
        seconds, problems = run_undisturbed(home, 0)
        for number in range(1, arguments.kills + 1):
            words = "" if number % UNDISTURBED else "nothing"
            if words:
                _, problems = run_undisturbed(home, number)
            else:
                words = run_disturbed(home, number, chance, seconds)
                problems = []
            problems += problems_of(home)
            num_passed += not problems
            _print(run=number, disturbed=words, problems=problems)
        _print(tried=arguments.kills, passed=num_passed)
    return 0 if num_passed == arguments.kills else 1


def _print(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
