"""Latency of a prediction server under load: clients that send one instance a request."""

import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

from components.errors import StepError
from components.evaluate.server.server import TimedClient

NUM_REQUESTS = 100  # for the record
NUM_JUDGED = 1000  # for a limit: ten requests are slower than the 99th percentile
MAX_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class Load:
    """Latencies of a prediction server, in milliseconds, with `clients` requests at a time."""

    clients: int
    requests: int
    p50_ms: float
    p99_ms: float
    per_second: float

    def values(self) -> dict[str, float]:
        """Return the numbers by name, for the metrics of a step."""
        return {
            "num_clients": self.clients,
            "num_requests": self.requests,
            "latency_ms_p50": round(self.p50_ms, 3),
            "latency_ms_p99": round(self.p99_ms, 3),
            "requests_per_second": round(self.per_second, 1),
        }


def check_latency(
    url: str, instances: Sequence[Any], *, clients: int, max_latency_ms: float | None
) -> Load:
    """Measure a server's latency and compare the 99th percentile with its limit, if there is one.

    A measurement above the limit is repeated, as this machine may have been busy: only the third
    is an error.

    Raises:
        StepError: The server is too slow, or refuses a request.
    """
    if max_latency_ms is None:
        return measure(url, instances, clients=clients, num_requests=NUM_REQUESTS)
    for _ in range(MAX_ATTEMPTS):
        load = measure(url, instances, clients=clients, num_requests=NUM_JUDGED)
        if load.p99_ms <= max_latency_ms:
            return load
    raise StepError(
        f"gate.max_latency_ms is {max_latency_ms:g}, but with {clients} clients 1 % of the requests"
        f" take {load.p99_ms:.1f} ms or more; use a smaller model, or raise the limit"
    )


def measure(url: str, instances: Sequence[Any], *, clients: int, num_requests: int) -> Load:
    """Send `num_requests` requests of one instance each from `clients` threads."""
    bodies = [json.dumps({"instances": [instance]}).encode() for instance in instances]
    shares = [range(client, num_requests, clients) for client in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        began = time.perf_counter()
        answers = list(
            pool.map(lambda share: _send(url, [bodies[n % len(bodies)] for n in share]), shares)
        )
        seconds = time.perf_counter() - began
    latencies = sorted(chain.from_iterable(answers))
    return Load(
        clients=clients,
        requests=len(latencies),
        p50_ms=_percentile(latencies, 0.5),
        p99_ms=_percentile(latencies, 0.99),
        per_second=len(latencies) / seconds,
    )


def _send(url: str, bodies: Sequence[bytes]) -> list[float]:
    """Send requests one after the other on one connection; return their milliseconds."""
    try:
        with closing(TimedClient(url)) as client:
            return [client.ask(body)[1] for body in bodies]
    except StepError as error:
        raise StepError(f"under load: {error}") from error


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1]
