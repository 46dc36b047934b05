"""Requests to a deployed model in the last hour, counted by minute in bounded memory."""

import math
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from vertex_local import Json

MINUTE = 60.0
NUM_MINUTES = 60
LEAST_MS = 0.01
STEPS = 50  # of latencies within a factor of e, so that a percentile is right to 1 %


@dataclass
class Minute:
    """Requests of one minute; `number` counts minutes since 1970, latencies are in steps."""

    number: float
    num_errors: int = 0
    latencies: Counter[int] = field(default_factory=Counter)


class RequestCounts:
    """Counts of the requests that ended in the last hour; one thread adds, any thread reads.

    `since` is the time of the first request that can have been counted, by time.time.
    """

    def __init__(self, since: float) -> None:
        self._since = since
        self._minutes: deque[Minute] = deque(maxlen=NUM_MINUTES)

    def add(self, milliseconds: float, *, is_error: bool) -> None:
        """Count a request that has ended now."""
        number = time.time() // MINUTE
        if not self._minutes or self._minutes[-1].number != number:
            self._minutes.append(Minute(number))
        minute = self._minutes[-1]
        minute.latencies[round(STEPS * math.log(max(milliseconds, LEAST_MS)))] += 1
        minute.num_errors += is_error

    def measured(self, num_minutes: int) -> Json:
        """Return number, errors, rate in 1/s, median and 99th percentile of the last minutes."""
        now = time.time()
        first = now // MINUTE - num_minutes + 1
        latencies: Counter[int] = Counter()
        recent = [minute for minute in self._minutes.copy() if minute.number >= first]
        for minute in recent:
            latencies.update(minute.latencies.copy())
        num_requests = latencies.total()
        return {
            "num_requests": num_requests,
            "num_errors": sum(minute.num_errors for minute in recent),
            "rate": num_requests / max(now - max(self._since, first * MINUTE), 1.0),
            "median_ms": _percentile(latencies, 0.5),
            "p99_ms": _percentile(latencies, 0.99),
        }


def _percentile(latencies: Counter[int], share: float) -> float | None:
    rest = share * latencies.total()
    for step in sorted(latencies):
        rest -= latencies[step]
        if rest < 0:
            return float(f"{math.exp(step / STEPS):.3g}")
    return None
