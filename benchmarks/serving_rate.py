"""Rate and latency of the prediction server against Flask, FastAPI and BentoML.

All serve the same exported model, with the same code that reads instances. A compiled client, wrk
(`apt-get install wrk`), has one core and the server the other; each request has one instance. The
servers are measured in turn, several times, and the medians compared. On a machine that is busy
otherwise, the CPU time of a prediction is the more reliable figure. The last line is the
share of the rate at which the model itself predicts 64 instances at a time.

BentoML's requirements are not those of apache-beam, so that it is compared only if it is installed
apart: `pip install --target DIR bentoml`, and DIR in PYTHONPATH.

With `--soak-seconds N` only our server is measured: 64 clients for N seconds, its failed requests,
and its memory at the start and at the end.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import requests

from benchmarks.support.clusters import (
    CACHE,
    Shape,
    examples,
    free_ports,
    scratch,
    train_in,
)
from benchmarks.support.report import report

BENTOML = "BentoML"
RIVALS = Path(__file__).parent / "rivals"
SERVERS = {
    "ours": ["-m", "trainer.serve"],
    "Flask + waitress": ["-m", "benchmarks.rivals.flask_server"],
    "FastAPI + uvicorn": ["-m", "benchmarks.rivals.fastapi_server"],
    BENTOML: ["-m", "bentoml", "serve", "benchmarks.rivals.bentoml_server:Predictions"],
}
OURS = "ours"
CLIENT_CORE, SERVER_CORE = "0", "1"
START_SECONDS = 180
CLIENTS = (1, 8, 64)


def has_wrk(benchmark: str) -> bool:
    """Return whether the client wrk is there; say that nothing is measured if it is not."""
    if not shutil.which("wrk"):
        text = f"{benchmark}: wrk is not on PATH, nothing is measured: apt-get install wrk\n"
        sys.stderr.write(text)
    return bool(shutil.which("wrk"))


def main() -> None:
    """Print our rate and 99th percentile against the best of the others, for each load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default="mnist,taxi", help="default: %(default)s")
    parser.add_argument("--servers", default=",".join(SERVERS), help="default: all")
    parser.add_argument("--clients", default=",".join(map(str, CLIENTS)))
    parser.add_argument("--seconds", type=int, default=3, help="of a run; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--soak-seconds", type=int, default=0)
    arguments = parser.parse_args()
    if not has_wrk("serving_rate"):
        return
    for workload in arguments.workloads.split(","):
        model = export(workload)
        with scratch() as folder:
            body = folder / "body.json"
            body.write_text(json.dumps({"instances": [instance_of(workload, model)]}))
            if arguments.soak_seconds:
                soak(workload, model, body, arguments.soak_seconds)
            else:
                compare(workload, model, body, arguments)


def export(workload: str) -> Path:
    """Return the exported model of a workload; train it for a few steps, once."""
    folder = CACHE / "serving_rate" / workload
    if not (folder / "model").exists():
        folder.mkdir(parents=True, exist_ok=True)
        train_in(folder, Shape(), "--steps", "20", workload=workload)
    return folder.resolve() / "model"


def instance_of(workload: str, model: Path) -> Any:
    """Return one example of the test split as a request has it."""
    code = (
        "import json, sys; from trainer.runtime.tensorflow_logs import import_tensorflow;"
        "import_tensorflow(); import tensorflow as tf;"
        "from trainer.serving.export import load_predictor; from pathlib import Path;"
        "w = load_predictor(sys.argv[1]).workload; f = sorted(Path(sys.argv[2]).glob('test-*'))[0];"
        "data = tf.data.TFRecordDataset(str(f), 'GZIP').batch(1);"
        "columns = {k: v.numpy()[0] for k, v in w.parse(next(iter(data)))[0].items()};"
        "print(json.dumps(w.format_instance(columns)))"
    )
    command = [sys.executable, "-c", code, str(model), str(examples(workload))]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def compare(workload: str, model: Path, body: Path, arguments: argparse.Namespace) -> None:
    """Measure all servers in turn."""
    names = arguments.servers.split(",")
    if BENTOML in names and not importlib.util.find_spec("bentoml"):
        sys.stderr.write("BentoML is not installed, and not compared\n")
        names.remove(BENTOML)
    ports, ours = free_ports(names), 0.0
    with contextlib.ExitStack() as stack:
        pids = {
            name: stack.enter_context(running(name, model, ports[name], body)).pid for name in names
        }
        for clients in map(int, arguments.clients.split(",")):
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
            for _ in range(arguments.rounds):
                for name in names:
                    before = cpu_seconds(pids[name])
                    found = load(ports[name], body, clients, arguments.seconds)
                    used = cpu_seconds(pids[name]) - before
                    runs[name].append({**found, "cpu_us": 1e6 * used / found["requests"]})
            ours = max(ours, report_load(f"{workload}, {clients} clients", runs))
    command = ["taskset", "-c", SERVER_CORE, sys.executable, "-m", "benchmarks.rivals.limit"]
    environ = {**os.environ, "AIP_STORAGE_URI": str(model)}
    limit = subprocess.run([*command, str(body)], env=environ, check=True, stdout=subprocess.PIPE)
    name = f"{workload}, share of the rate of predict(64 instances)"
    report(name, ours=ours, theirs=float(limit.stdout), unit="predictions/s")


def report_load(name: str, runs: dict[str, list[dict[str, float]]]) -> float:
    """Print rate and latency against the best other server; return our rate."""
    rates, slowest, cpu = {}, {}, {}
    for server, found in runs.items():
        rates[server] = statistics.median(one["requests"] / one["seconds"] for one in found)
        slowest[server] = statistics.median(one["p99_ms"] for one in found)
        cpu[server] = statistics.median(one["cpu_us"] for one in found)
        failed = sum(one["failed"] for one in found)
        middle = statistics.median(one["p50_ms"] for one in found)
        sys.stderr.write(
            f"{name}: {server} {rates[server]:.0f}/s, p50 {middle:.2f} ms, "
            f"p99 {slowest[server]:.2f} ms, {cpu[server]:.0f} µs of CPU each, {failed:.0f} failed\n"
        )
    others = [server for server in runs if server != OURS]
    if others and OURS in runs:
        best = max(others, key=rates.__getitem__)
        report(
            f"{name}, against {best}", ours=rates[OURS], theirs=rates[best], unit="predictions/s"
        )
        cheapest = min(others, key=cpu.__getitem__)
        report(
            f"{name}, CPU time of the server against {cheapest}",
            ours=cpu[OURS],
            theirs=cpu[cheapest],
            unit="µs a prediction",
            lower_is_better=True,
        )
        least = min(others, key=slowest.__getitem__)
        report(
            f"{name}, p99 against {least}",
            ours=slowest[OURS],
            theirs=slowest[least],
            unit="ms",
            lower_is_better=True,
        )
    return rates.get(OURS, 0.0)


def soak(workload: str, model: Path, body: Path, seconds: int) -> None:
    """Print failed requests and memory of our server under 64 clients."""
    [port] = free_ports([OURS]).values()
    with running(OURS, model, port, body) as process:
        load(port, body, CLIENTS[-1], max(1, seconds // 20))
        before = resident_megabytes(process.pid)
        found = load(port, body, CLIENTS[-1], seconds)
        after = resident_megabytes(process.pid)
    sys.stderr.write(f"{workload}: {json.dumps(found)}\n")
    name = f"{workload}, {CLIENTS[-1]} clients for {seconds} s"
    report(f"{name}: memory", ours=after, theirs=before, unit="MB", lower_is_better=True)
    if found["failed"]:
        raise SystemExit(f"{found['failed']:.0f} of {found['requests']:.0f} requests failed")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and its children have used."""
    process = psutil.Process(pid)
    return sum(
        one.cpu_times().user + one.cpu_times().system
        for one in (process, *process.children(recursive=True))
    )


def resident_megabytes(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def running(name: str, model: Path, port: int, body: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server on its core until the block ends; wait until it predicts."""
    words = [*SERVERS[name], *(["--port", str(port)] if name == BENTOML else [])]
    path = os.pathsep.join([str(RIVALS.parents[1]), f"{sys.prefix}/bench", *_bench_path()])
    environ = {
        **os.environ,
        "AIP_STORAGE_URI": str(model),
        "AIP_HTTP_PORT": str(port),
        "AIP_HTTP_HOST": "127.0.0.1",
        "BENTOML_DO_NOT_TRACK": "true",
        "PYTHONPATH": path,
    }
    process = subprocess.Popen(
        ["taskset", "-c", SERVER_CORE, sys.executable, *words],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=None if name == OURS else subprocess.DEVNULL,
    )
    try:
        _await(port, body, process)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def load(port: int, body: Path, clients: int, seconds: int) -> dict[str, float]:
    """Send requests from some clients; return what post.lua prints."""
    wrk = ["wrk", "--threads", "1", "--connections", str(clients), "--duration", f"{seconds}s"]
    words = ["--timeout", "30s", "--script", str(RIVALS / "post.lua")]
    url = f"http://127.0.0.1:{port}/predict"
    found = subprocess.run(
        ["taskset", "-c", CLIENT_CORE, *wrk, *words, url, "--", str(body)],
        check=True,
        stdout=subprocess.PIPE,
    )
    result: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return result


def _bench_path() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def _await(port: int, body: Path, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(requests.ConnectionError):
            url = f"http://127.0.0.1:{port}/predict"
            headers = {"Content-Type": "application/json"}
            if requests.post(url, data=body.read_bytes(), headers=headers, timeout=60).ok:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"a server did not start: {process.args!r}")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
