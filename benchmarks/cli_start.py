"""Time of light commands of `trainyard`, against the import of the SDK.

A script that does the same with the SDK imports it before its first request. The commands are
timed from their start to their end, in turns with the import; all but --help send requests to a
service on this machine. `models rollback` moves the traffic of an endpoint between two versions
that are deployed to it, back and, untimed, forth. Their server is
vertex_local/tests/support/tiny_server.py.

python -m benchmarks.cli_start [--rounds 5]
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.support.clusters import scratch
from benchmarks.support.report import report
from components.model_version.registry import set_default
from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi, connect
from components.shared.vertex.resource_name import ResourceName
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from vertex_local import testing

SERVER = Path(__file__).parents[1] / "vertex_local" / "tests" / "support" / "tiny_server.py"
TRAINYARD = [sys.executable, "-m", "pipelines.cli"]
TIMEOUT_SECONDS = 120
COMMANDS = ("--help", "models list", "runs list", "models rollback tiny")
FORTH = ("endpoints deploy tiny@2", "models set-default tiny@2")  # after a rollback
IMPORT_SDK = [sys.executable, "-c", "import google.cloud.aiplatform"]


def main() -> None:
    """Print the median seconds of each command and of the import, as a JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    num_rounds = parser.parse_args().rounds
    calls = {text: [*TRAINYARD, *text.split()] for text in COMMANDS} | {"": IMPORT_SDK}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    with scratch() as folder, testing.running(root=folder / "vertex") as service:
        os.environ[EMULATOR_VARIABLE] = service.host  # as `trainyard` expects it
        _deploy_two_versions(connect(LOCAL_PROJECT, DEFAULT_LOCATION), folder / "model")
        for _ in range(num_rounds + 1):
            for name, call in calls.items():
                seconds[name].append(_seconds(call))
            for text in FORTH:
                _seconds([*TRAINYARD, *text.split()])
    imports = seconds[""][1:]
    for text in COMMANDS:
        times = seconds[text][1:]
        sys.stderr.write(f"{text}: {[round(one, 3) for one in times]}\n")
        report(f"trainyard {text}", ours=times, theirs=imports, unit="s", lower_is_better=True)


def _deploy_two_versions(api: VertexApi, folder: Path) -> None:
    """Upload two versions of a model, make each the default in turn, and deploy both."""
    folder.mkdir()
    container = {"imageUri": "none", "command": ["python", str(SERVER)], "args": ["classes"]}
    model = {"displayName": "tiny", "containerSpec": container, "artifactUri": str(folder)}
    parent = {}
    for _ in range(2):
        operation = api.post(f"{api.parent}/models:upload", {"model": model, **parent})
        found = api.wait(operation, timeout_seconds=TIMEOUT_SECONDS)
        parent = {"parentModel": found["model"]}
        version = ResourceName.from_name(found["model"]).with_version(found["modelVersionId"])
        set_default(api, version)
        deploy = ["endpoints", "deploy", str(version)]
        subprocess.run([*TRAINYARD, *deploy], check=True, capture_output=True)


def _seconds(call: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(call, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
