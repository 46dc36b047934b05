"""Rate of predictions through an endpoint of the local service, against the server's own rate.

`wrk` (a Debian package) sends requests of one instance on one core. The service and the prediction
server share another core, so that the ratio has the whole cost of the service. The rates through
the endpoint and of the server alone are measured in turns. The server is
`support/instant_server.py`, or with `--workload mnist` that of a model.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import requests

from benchmarks.serving_rate import export, has_wrk, instance_of
from benchmarks.support.clusters import scratch
from benchmarks.support.report import report
from vertex_local import testing
from vertex_local.testing import RunningService

INSTANT_SERVER = Path(__file__).with_name("support") / "instant_server.py"
TIMEOUT_SECONDS = 120
CLIENT_CORE, SERVER_CORE = "0", "1"
RATE = re.compile(r"Requests/sec:\s*([0-9.]+)")
COUNT = re.compile(r"([0-9]+) requests in")
SLOWEST = re.compile(r"99%\s+(\S+)")
FAILED = re.compile(r"(?:Non-2xx|Socket errors).*")


def main() -> None:
    """Print a line of JSON for each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--turns", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--work-microseconds", type=int, default=100, help="of instant_server")
    parser.add_argument("--logging", type=float, default=0.0, help="share of logged requests")
    parser.add_argument("--workload", help="serve the model of mnist or taxi")
    arguments = parser.parse_args()
    if not has_wrk("endpoint_rate"):
        return
    model = export(arguments.workload) if arguments.workload else None
    instance = instance_of(arguments.workload, model) if model else 1.5
    with (
        scratch() as folder,
        testing.running(root=folder / "vertex", launch=_launch_on_core) as service,
    ):
        body = json.dumps({"instances": [instance]})
        predict = _deploy(service, folder, arguments, model)
        requests.post(predict, data=body, timeout=TIMEOUT_SECONDS).raise_for_status()
        direct, server_pids = _direct(folder)
        server = arguments.workload or "an instant server"
        for clients in arguments.clients:
            command = ["wrk", "-t1", f"-c{clients}", f"-d{arguments.seconds}s", "--latency"]
            command += ["-s", str(_script(folder, body))]
            rates = []
            for _ in range(arguments.turns):
                through, used = _measure(command, predict, [service.process.pid, *server_pids])
                alone, used_alone = _measure(command, direct, server_pids)
                rates.append((through, alone, used, used_alone))
            through, alone, used, used_alone = zip(*rates, strict=True)
            name = f"through an endpoint, {server}, {clients} clients"
            report(f"predictions {name}", ours=through, theirs=alone, unit="1/s")
            # Less disturbed by other programs than the rate.
            cpu = {"ours": used, "theirs": used_alone, "unit": "µs", "lower_is_better": True}
            report(f"CPU of a prediction {name}", **cpu)


def _launch_on_core(command: Sequence[str], log_path: Path) -> "subprocess.Popen[bytes]":
    return testing.launch(["taskset", "-c", SERVER_CORE, *command], log_path)


def _deploy(
    service: RunningService, folder: Path, arguments: argparse.Namespace, model_dir: Path | None
) -> str:
    """Deploy the model on a new endpoint; return the address of its predictions."""
    artifact = model_dir or folder / "model"
    artifact.mkdir(exist_ok=True)
    command = ["python", *(["-m", "trainer.serve"] if model_dir else [INSTANT_SERVER])]
    env = {"WORK_MICROSECONDS": arguments.work_microseconds}
    variables = [{"name": name, "value": str(value)} for name, value in env.items()]
    container = {"imageUri": "none", "command": list(map(str, command)), "env": variables}
    if model_dir:
        container |= {"healthRoute": "/health", "predictRoute": "/predict"}
    model = {"displayName": "m", "artifactUri": str(artifact), "containerSpec": container}
    name = service.do("POST", "models:upload", {"model": model})["model"]
    log = {"enabled": arguments.logging > 0, "samplingRate": arguments.logging}
    endpoint = {"displayName": "e", "predictRequestResponseLoggingConfig": log}
    endpoint_name = service.do("POST", "endpoints", endpoint)["name"]
    resources = {"machineSpec": {"machineType": "n1-standard-2"}, "minReplicaCount": 1}
    deployed = {"model": name, "dedicatedResources": resources}
    body = {"deployedModel": deployed, "trafficSplit": {"0": 100}}
    service.do("POST", f"/v1/{endpoint_name}:deployModel", body)
    return f"{service.url}/v1/{endpoint_name}:predict"


def _direct(folder: Path) -> tuple[str, list[int]]:
    """Return the address and the processes of the prediction server below a folder."""
    url, pids = "", []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environ = process.environ()
            if "AIP_PREDICT_ROUTE" in environ and str(folder) in str(environ):
                port, route = environ["AIP_HTTP_PORT"], environ["AIP_PREDICT_ROUTE"]
                url = f"http://127.0.0.1:{port}{route}"
                pids.append(process.pid)
    return url, pids


def _script(folder: Path, body: str) -> Path:
    path = folder / "request.lua"
    text = f'wrk.method = "POST"\nwrk.body = [==[{body}]==]\n'
    path.write_text(text + 'wrk.headers["Content-Type"] = "application/json"\n')
    return path


def _measure(command: list[str], url: str, pids: list[int]) -> tuple[float, float]:
    """Return the requests per second, and the microseconds of CPU per request of processes."""
    began = sum(map(_cpu_seconds, pids))
    done = subprocess.run(
        ["taskset", "-c", CLIENT_CORE, *command, url], stdout=subprocess.PIPE, text=True, check=True
    )
    used_seconds = sum(map(_cpu_seconds, pids)) - began
    rate, count, slowest, failed = (
        " ".join(pattern.findall(done.stdout)) for pattern in (RATE, COUNT, SLOWEST, FAILED)
    )
    sys.stderr.write(f"{url}: {rate}/s, 99% within {slowest} {failed}\n")
    return float(rate), 1e6 * used_seconds / max(int(count), 1)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
