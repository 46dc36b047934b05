"""Whole runs on a service of which a tenth of all calls fails: how many succeed, and what is left.

    python -m tools.soak.bad_day --runs 20

Each run trains on few images without the cache. After each, what the service holds is counted:
one run, one job and one version more, nothing unfinished, no endpoint, nothing deployed, no
creation carried out twice. The exit code is 0 if all runs have passed.
"""

import argparse
import collections
import contextlib
import json
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from components.shared.vertex.api import VertexApi, connect
from pipelines.resources.kinds import JOB
from tests.conftest import write_mnist
from tests.support.processes.whole_runs import PRELOAD, Home
from vertex_local.tests.support.service import running_service

FAULTS = "any=0.1;late-seconds=0.5"
RUN_TIMEOUT_SECONDS = 240
CREATIONS = ("CreateEndpoint", "DeployModel", "UploadModel")


@dataclass(frozen=True)
class Holdings:
    """Resources of a service at one moment."""

    runs: int
    jobs: int
    unfinished_jobs: int
    versions: int
    endpoints: int
    deployed: int
    creations: dict[str, int]

    def expected_next(self) -> "Holdings":
        """Return the resources after one more run that has succeeded and was torn down."""
        return replace(
            self,
            runs=self.runs + 1,
            jobs=self.jobs + 1,
            versions=self.versions + 1,
            unfinished_jobs=0,
            endpoints=0,
            deployed=0,
            creations={kind: count + 1 for kind, count in self.creations.items()},
        )


@contextlib.contextmanager
def faulty_service(home: Home, faults: str) -> Iterator[str]:
    """Serve with faults for as long as the block lasts; the url."""
    options = ["--preload", PRELOAD, "--faults", faults]
    with running_service(home.state / "vertex", *options) as service:
        yield service.url


def log_of(home: Home) -> Path:
    """Return the log of the home's service."""
    return home.state / "vertex" / "serve.log"


def num_faults(home: Home) -> dict[str, int]:
    """Return the number of injected faults by kind."""
    return dict(collections.Counter(re.findall(r"fault \d+: ([^:]+):", log_of(home).read_text())))


def run_once(home: Home, api: VertexApi) -> list[str]:
    """Run the pipeline; return what is wrong, nothing if all is as it should be.

    Each run has a seed of its own: the same model would be the same version, and deploy nothing.
    """
    expected = holdings(home, api).expected_next()
    settings = ["thresholds.accuracy=0", "gate.min_gain=-1", f"train.seed={expected.runs}"]
    process = home.start_run("--no-cache", *(word for one in settings for word in ("--set", one)))
    output, _ = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
    problems = []
    if process.returncode != 0:
        problems.append(f"exit code {process.returncode}: {output[-3000:]}")
    if "Traceback" in output:
        problems.append(f"a traceback: {output[-3000:]}")
    found = holdings(home, api)
    if found != expected:
        problems.append(f"the service holds {found}, expected {expected}")
    return problems


def holdings(home: Home, api: VertexApi) -> Holdings:
    """Count what the service holds."""
    jobs = list(api.list_resources("customJobs"))
    models = {model["name"].partition("@")[0] for model in api.list_resources("models")}
    endpoints = list(api.list_resources("endpoints"))
    return Holdings(
        runs=len(list(api.list_resources("pipelineJobs"))),
        jobs=len(jobs),
        unfinished_jobs=sum(not JOB.is_final(job) for job in jobs),
        versions=sum(len(list(api.list_resources(f"{name}:listVersions"))) for name in models),
        endpoints=len(endpoints),
        deployed=sum(len(endpoint.get("deployedModels", [])) for endpoint in endpoints),
        creations=_creations(home),
    )


def _creations(home: Home) -> dict[str, int]:
    """Return the number of creations by kind, from the operations in the service's store."""
    path = home.state / "vertex" / "vertex.db"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT body FROM resources WHERE collection GLOB '*/operations'")
        types = [json.loads(row[0])["metadata"]["@type"] for row in rows]
    return {kind: sum(f".{kind}Operation" in one for one in types) for kind in CREATIONS}


def main() -> int:
    """Run, count, print one JSON object a run and one in the end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--faults", default=FAULTS, help="default: %(default)s")
    arguments = parser.parse_args()
    num_passed = 0
    with tempfile.TemporaryDirectory(prefix="bad-day-") as folder:
        home = Home(Path(folder, "home"), write_mnist(Path(folder, "mnist"), num_train=64))
        with faulty_service(home, arguments.faults) as url, _environment(url):
            api = connect("local", "us-central1")
            for number in range(1, arguments.runs + 1):
                began, before = time.monotonic(), sum(num_faults(home).values())
                problems = run_once(home, api)
                num_passed += not problems
                _print(
                    run=number,
                    passed=not problems,
                    seconds=round(time.monotonic() - began, 1),
                    faults=sum(num_faults(home).values()) - before,
                    problems=problems,
                )
        _print(tried=arguments.runs, passed=num_passed, faults=num_faults(home))
    return 0 if num_passed == arguments.runs else 1


def _environment(url: str) -> contextlib.AbstractContextManager[None]:
    from pipelines.places.local_service import environment

    return environment(VERTEX_EMULATOR_HOST=url.removeprefix("http://"))


def _print(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
