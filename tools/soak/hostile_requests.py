"""Malformed and hostile requests: which responses they get, and whether the servers stay well.

    python -m tools.soak.hostile_requests --requests 6000 --seed 1

The service with all its routes, its fast lane for predictions, and a prediction server get requests
with wrong bodies and broken HTTP; half-open connections and slow bodies stay open meanwhile. Prints
a table. The exit code is 0 if no response was a 5xx but 501 and 503, no server has ended or logged
a traceback, each still responds, and its memory is bounded. The same seed sends the same requests.
"""

import argparse
import json
import os
import random
import re
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.support.data.untrained import export_untrained
from vertex_local.server import MODULES
from vertex_local.tests.support.service import PARENT, RunningService, deployment, running_service

TIMEOUT_SECONDS = 30
MAX_GROWTH_BYTES = 400_000_000
NUM_THREADS = 4
NUM_HALF_OPEN = 100
ALLOWED_ERRORS = {501, 503}
LOG_TROUBLE = ("Traceback", "Internal error", "Unexpected error")
PIXELS = [[0] * 28] * 28
STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 0.5, 1e308, 2**31, 2**63, 10**400, "", "\0", "x" * 100_000, "é\u202e"),
    *([], {}, [[]], [None], {"": ""}, "NaN", "-Infinity", "1e999", "-5s", "315576000000s", "1e9s"),
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "../../etc/passwd"),
    *("gs://b/o", "file:///etc", "{{$.inputs.parameters['x']}}", "projects/a/locations/b/models/c"),
)
SPEC = {
    "pipelineInfo": {"name": "p"},
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.17.0",
    "root": {
        "dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}, "taskInfo": {"name": "a"}}}}
    },
    "components": {"comp-a": {"executorLabel": "exec-a"}},
    "deploymentSpec": {"executors": {"exec-a": {"container": {"image": "i", "command": ["true"]}}}},
}
RUN = {
    "displayName": "r",
    "pipelineSpec": SPEC,
    "runtimeConfig": {"gcsOutputDirectory": "/proc/nowhere"},
}
# Bodies that are valid, or nearly: what they would start needs a folder that cannot exist.
POOL = {
    "replicaCount": "1",
    "machineSpec": {"machineType": "n1-standard-4"},
    "containerSpec": {"imageUri": "i", "command": ["true"]},
}
BODIES: dict[str, Any] = {
    "customJobs": {
        "displayName": "j",
        "labels": {"a": "b"},
        "jobSpec": {
            "workerPoolSpecs": [POOL, {**POOL, "replicaCount": "2"}],
            "scheduling": {"timeout": "5s", "restartJobOnWorkerRestart": False},
            "baseOutputDirectory": {"outputUriPrefix": "/proc/nowhere"},
        },
    },
    "pipelineJobs": RUN,  # with an id that is not valid
    "schedules": {
        "displayName": "s",
        "cron": "0 3 1 1 *",
        "startTime": "2030-01-01T00:00:00Z",
        "endTime": "2040-01-01T00:00:00Z",
        "maxConcurrentRunCount": "1",
        "maxRunCount": "2",
        "createPipelineJobRequest": {"parent": PARENT, "pipelineJob": RUN},
    },
    "models:upload": {
        "model": {
            "displayName": "m",
            "labels": {"a": "b"},
            "versionAliases": ["golden"],
            "containerSpec": {"imageUri": "i", "command": ["true"], "deploymentTimeout": "5s"},
        },
        "modelId": "m-1",
    },
    "endpoints": {
        "displayName": "e",
        "labels": {"a": "b"},
        "predictRequestResponseLoggingConfig": {"enabled": True, "samplingRate": 0.5},
    },
    "<endpoint>": {"displayName": "f", "trafficSplit": {"1": 100}},
    "<model>": {"displayName": "n", "labels": {"c": "d"}},
    "<id>": {"displayName": "t", "cron": "0 4 * * *"},
    "<endpoint>:deployModel": {
        "deployedModel": {
            **deployment(f"{PARENT}/models/9")["deployedModel"],
            "displayName": "d",
            "id": "7",
        },
        "trafficSplit": {"0": 100},
    },
    "<endpoint>:undeployModel": {"deployedModelId": "7", "trafficSplit": {}},
    "<endpoint>:predict": {"instances": [{"image": PIXELS, "key": 1}], "parameters": {"a": 1}},
    "<model>:mergeVersionAliases": {"versionAliases": ["golden", "-silver"]},
    "evaluations:import": {"modelEvaluation": {"metrics": {"accuracy": 0.5}, "displayName": "v"}},
    "<id>:resume": {"catchUp": True},
    "<id>:wait": {"timeout": "0.1s"},
    "entries:list": {
        "resourceNames": ["projects/demo"],
        "filter": 'resource.type="ml_job" AND timestamp>="2026-01-01T00:00:00Z"',
        "pageSize": 5,
        "orderBy": "timestamp desc",
    },
}
QUERIES = (
    *("", "", "?pageSize=5&orderBy=createTime desc", "?pageSize=-1", "?pageToken=AAAA"),
    *(
        "?filter=state%3D%22",
        "?filter=((((",
        "?updateMask=displayName,cron,labels",
        "?updateMask=*",
    ),
    *("?pageSize=99999999999999999999", "?filter=createTime>%229999-12-31T23:59:59-10:00%22"),
    *("?filter=%00", "?updateMask=a.b.c.d", "?filter=labels.a:*%20OR%20NOT%20done=true"),
    *("?afterPosition=1e999", "?" + "a=1&" * 500),
)
IDS = ("victim", "999", "-", "5@2", "5@default", "..", "%00", "%2e%2e%2f", "é", "a" * 129, "1" * 40)


@dataclass(frozen=True)
class Server:
    """One of the servers, and a function that makes the method, path and body of a request."""

    name: str
    port: int
    make: Callable[[random.Random], tuple[str, str, Any]]
    live: bytes


@dataclass
class Count:
    """Outcomes of the requests of a kind."""

    statuses: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)


def mutated(body: Any, chance: random.Random) -> Any:
    """Replace, remove or add one value in a copy of a JSON body."""
    body = json.loads(json.dumps(body))
    places = list(_places(body))
    if not places or chance.random() < 0.05:
        return chance.choice(VALUES)
    holder, key = chance.choice(places)
    action = chance.randrange(5)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[chance.choice(["unknown", "", "__class__", "a.b", "\0"])] = chance.choice(VALUES)
    else:
        holder[key] = chance.choice(VALUES)
    return body


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(items):
        yield value, key
        if isinstance(one, dict | list):
            yield from _places(one)


def as_text(body: Any, chance: random.Random) -> bytes:
    """Return a body as JSON, in one of two cases broken."""
    text = json.dumps(body).encode()
    cut = chance.randrange(len(text) + 1)
    broken: list[bytes] = [
        *(text[:cut], text[:cut] + b"\xff\xfe" + text[cut:], text[:cut] + b"\0" + text[cut:]),
        *(b"\xef\xbb\xbf" + text, text.decode().encode("utf-16"), text + text, b"", b"null"),
        *(b"[" * 50_000, b'{"a":' * 50_000, b'{"a": NaN, "instances": [Infinity]}', b"-" + text),
        *(b'{"instances": [1e999]}', b'{"instances": [' + b"9" * 5000 + b"]}", b"\r\n\r\n"),
        *(b'{"a": 1, "a": 2}', b'{"instances": ["\\ud800"]}', chance.randbytes(500)),
        b'{"instances": [' + b"[" * 2000 + b"]" * 2000 + b"]}",
    ]
    return text if chance.random() < 0.5 else chance.choice(broken)


def request(method: str, path: str, body: bytes, *fields: str, length: str = "") -> bytes:
    """Return a request with the right length, unless another is given."""
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *fields]
    head.append(f"Content-Length: {length or len(body)}")
    return "\r\n".join([*head, "", ""]).encode(errors="surrogateescape") + body


def broken_http(method: str, path: str, body: bytes, chance: random.Random) -> bytes:
    """Return a request that is broken, ambiguous or hostile below JSON."""
    start = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    chunked = b"Transfer-Encoding: chunked\r\n"
    size = b"%x" % len(body)
    whole = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
    lengths = (
        "-1",
        "+5",
        "1e3",
        "0x10",
        "9" * 30,
        "5, 6",
        " ",
        "\uff15",
        "100000000",
        str(len(body) + 9),
    )
    sizes = (b"-1", b"0x5", b"f" * 20, b"5 ", b"", b"g", b"5;" + b"x" * 9000, b"5\n", b"+5")
    heads = (
        *("Transfer-Encoding: chunked", "Transfer-Encoding: xchunked", "Content-Length: 3"),
        *("Host: evil.example", "Origin: http://evil.example", "Expect: 200-nonsense"),
        *("Upgrade: h2c", "Connection: close, keep-alive", "Content-Encoding: gzip", "X: \0"),
        *(f"X: {'y' * 300_000}", "no colon", " folded: x", "Content-Type: \xff", "Cookie: a\rb"),
        *(
            "Range: bytes=9-1",
            "Expect: 100-continue",
        ),
        *("Inference-Header-Content-Length: -1", "Inference-Header-Content-Length: 99999999"),
        "\r\n".join(f"X-{number}: {number}" for number in range(3000)),
    )
    targets = (
        "*",
        "",
        "/../..",
        "//x",
        "/%00",
        "/%zz",
        "http://evil/x",
        "/" + "a" * 70_000,
        "/\xff",
    )
    cases: list[Callable[[], bytes]] = [
        lambda: request(method, path, body, length=chance.choice(lengths)),
        lambda: request(method, path, body, chance.choice(heads)),
        lambda: request(method, chance.choice(targets), body),
        lambda: request(
            chance.choice(["GET\0", "get", "", "A" * 9000, "TRACE", "PRI"]), path, body
        ),
        lambda: start + chunked + b"Content-Length: 4\r\n\r\n" + whole,
        lambda: start + chunked + b"\r\n" + whole[: chance.randrange(len(whole))],
        lambda: (
            start + chunked + b"\r\n" + chance.choice(sizes) + b"\r\n" + body + b"\r\n0\r\n\r\n"
        ),
        lambda: start + chunked + b"\r\n" + whole[:-2] + b"Trailer: x\r\n" * 5000 + b"\r\n",
        lambda: start.replace(b"\r\n", b"\n") + b"\n" + body,
        lambda: start.replace(b"HTTP/1.1", chance.choice([b"HTTP/9.9", b"HTTP/1.0", b"", b"HTTP"])),
        lambda: start.replace(b"Host: 127.0.0.1\r\n", b"") + b"\r\n",
        lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + chance.randbytes(100),
        lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(200),
        lambda: chance.randbytes(chance.randrange(1, 3000)),
        lambda: request(method, path, body)[: chance.randrange(200)],
        lambda: b"".join(request(method, path, body) for _ in range(5)),
        lambda: request(method, path, body) + chance.randbytes(50) + request(method, path, body),
    ]
    return chance.choice(cases)()


def route_request(chance: random.Random) -> tuple[str, str, Any]:
    """Return a request to one of the service's routes."""
    route = chance.choice([route for module in MODULES for route in getattr(module, "ROUTES", [])])
    pattern = route.pattern if route.pattern.startswith("/") else f"/v1/{route.pattern}"
    last = route.pattern.rpartition("/")[2]
    path = pattern.replace("<project>", "demo").replace("<location>", "us-central1")
    path = re.sub(r"<\w+>", lambda _: chance.choice(IDS[: chance.choice([1, len(IDS)])]), path)
    query = chance.choice(QUERIES).replace(" ", "%20")
    if last == "pipelineJobs" and route.method == "POST":
        query = "?pipelineJobId=NOT%20VALID"  # refused after all other checks
    return route.method, path + query, BODIES.get(last, {"name": "x"})


def outcome(server: Server, data: bytes, *, pause_seconds: float) -> list[int]:
    """Send data, in two parts with a pause; return the statuses until the connection ends."""
    with closing(socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS)) as client:
        received = b""
        with suppress(OSError):  # refused before it was read
            half = len(data) // 2 if pause_seconds else len(data)
            client.sendall(data[:half])
            time.sleep(pause_seconds)
            client.sendall(data[half:])
            client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while part := client.recv(65536):
                received += part
    return [int(status) for status in STATUS.findall(received)]


class Run:
    """All requests, counted by server and kind."""

    def __init__(self, servers: list[Server], *, seed: int) -> None:
        self.servers = servers
        self.seed = seed
        self.counts: dict[tuple[str, str], Count] = defaultdict(Count)
        self._lock = threading.Lock()

    def one(self, number: int) -> None:
        """Send the request of a number, and count its outcome."""
        chance = random.Random(f"{self.seed}-{number}")
        server = self.servers[number % len(self.servers)]
        method, path, body = server.make(chance)
        data = as_text(mutated(body, chance) if chance.random() < 0.8 else body, chance)
        kind = chance.choice(["body", "body", "HTTP"])
        sent = (
            request(method, path, data)
            if kind == "body"
            else broken_http(method, path, data, chance)
        )
        pause_seconds = 0.2 if chance.random() < 0.03 else 0.0
        try:
            statuses = outcome(server, sent, pause_seconds=pause_seconds)
        except TimeoutError:
            statuses = [599]
        bad = [code for code in statuses if code >= 500 and code not in ALLOWED_ERRORS]
        with self._lock:
            count = self.counts[server.name, kind]
            count.statuses.update(
                [f"{code // 100}xx" if code < 500 else str(code) for code in statuses]
            )
            count.statuses.update([] if statuses else ["closed"])
            if bad:
                count.bad.append(f"{number}: {bad[0]} to {sent[:150]!r}")

    def check_alive(self) -> None:
        """Check that each server responds to a plain request within 10 s."""
        for server in self.servers:
            started = time.monotonic()
            statuses = outcome(server, server.live, pause_seconds=0)
            assert statuses == [200], f"{server.name} responds with {statuses}"
            assert time.monotonic() - started < 10, f"{server.name} is slow"


@contextmanager
def half_open(servers: list[Server]) -> Iterator[None]:
    """Hold connections that have sent nothing, half a head or half a body, and read nothing."""
    with ExitStack() as stack:
        for number in range(NUM_HALF_OPEN):
            server = servers[number % len(servers)]
            client = socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS)
            stack.callback(client.close)
            data = request("POST", f"/v1/{PARENT}/endpoints/lane:predict", b"{}", length="99999")
            client.sendall(data[: (0, 30, len(data))[number % 3]])
        yield


def deploy(service: RunningService, folder: Path) -> int:
    """Deploy an MNIST model to the endpoint `lane`; return the port of its prediction server."""
    container = {
        "imageUri": "trainyard",
        "command": ["python", "-m", "trainer.serve"],
        "healthRoute": "/health",
        "predictRoute": "/predict",
    }
    model = {"displayName": "mnist", "artifactUri": str(folder), "containerSpec": container}
    uploaded = service.do("POST", "models:upload", {"model": model})
    service.do("POST", "endpoints?endpointId=lane", {"displayName": "lane"})
    service.do("POST", "endpoints?endpointId=victim", {"displayName": "victim"})
    deployed = deployment(uploaded["model"], trafficSplit={"0": 100})
    service.do("POST", "endpoints/lane:deployModel", deployed)
    listening = [
        connection.laddr.port
        for process in processes_of(service)[1:]
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    return next(port for port in listening if port != int(service.url.rpartition(":")[2]))


def processes_of(service: RunningService) -> list[psutil.Process]:
    """Return the service and its descendants."""
    first = psutil.Process(service.process.pid)
    return [first, *first.children(recursive=True)]


def sizes(service: RunningService) -> dict[int, int]:
    """Return the memory of the service's processes by pid."""
    return {process.pid: process.memory_info().rss for process in processes_of(service)}


def servers_of(service: RunningService, port: int) -> list[Server]:
    """Return the three servers."""
    path = f"/v1/{PARENT}/endpoints/lane:predict"
    body = BODIES["<endpoint>:predict"]
    plain = json.dumps({"instances": body["instances"]}).encode()
    own_port = int(service.url.rpartition(":")[2])
    return [
        Server("service", own_port, route_request, request("GET", f"/v1/{PARENT}/models", b"")),
        Server("lane", own_port, lambda _: ("POST", path, body), request("POST", path, plain)),
        Server(
            "model", port, lambda _: ("POST", "/predict", body), request("POST", "/predict", plain)
        ),
    ]


def table(run: Run) -> str:
    """Return the counts as a table."""
    columns = ("2xx", "3xx", "4xx", "501", "503", "closed")
    lines = [f"{'server':10}{'kind':8}" + "".join(f"{name:>8}" for name in columns) + "  other 5xx"]
    for (server, kind), count in sorted(run.counts.items()):
        numbers = "".join(f"{count.statuses[name]:8}" for name in columns)
        lines.append(f"{server:10}{kind:8}{numbers}{len(count.bad):11}")
    return "\n".join(lines)


def main() -> int:
    """Parse the command line, send the requests and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with tempfile.TemporaryDirectory(prefix="hostile-") as name, ExitStack() as stack:
        export_untrained(Path(name) / "model")
        service = stack.enter_context(running_service(Path(name) / "vertex"))
        servers = servers_of(service, deploy(service, Path(name) / "model"))
        run = Run(servers, seed=arguments.seed)
        run.check_alive()
        before = sizes(service)
        stack.enter_context(half_open(servers))
        for start in range(0, arguments.requests, 500):
            numbers = range(start, min(start + 500, arguments.requests))
            with ThreadPoolExecutor(NUM_THREADS) as pool:
                list(pool.map(run.one, numbers))
            run.check_alive()
        after = sizes(service)
        growth = max(after.get(pid, 0) - size for pid, size in before.items())
        ended = sorted(before.keys() - after.keys())
        log = (service.root / "serve.log").read_text(errors="replace")
        trouble = [line for line in log.splitlines() if any(word in line for word in LOG_TROUBLE)]
    bad = [line for count in run.counts.values() for line in count.bad]
    sys.stdout.write(f"{table(run)}\n")
    for line in [*bad, *trouble]:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(
        f"seed {arguments.seed}, {arguments.requests} requests: {len(bad)} bad responses, "
        f"{len(trouble)} lines of trouble in the log, {len(ended)} processes ended, "
        f"memory grew by at most {growth / 1e6:.0f} MB\n"
    )
    return 0 if not (bad or trouble or ended) and growth < MAX_GROWTH_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
