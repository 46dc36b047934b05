"""Metrics of the prediction server, in Prometheus' text format.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_INSTANCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Histogram:
    """Counts of values up to each bound, and their sum."""

    def __init__(self, name: str, help_: str, bounds: Sequence[float]):
        self._name, self._help, self._bounds = name, help_, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self) -> list[str]:
        """Return the lines of the text format."""
        lines, total = [*_head(self._name, self._help, "histogram")], 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            lines.append(f'{self._name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{self._name}_sum {self._sum:.6f}", f"{self._name}_count {total}"]


class Metrics:
    """Counters of requests, and histograms of their duration and of the batches' size."""

    def __init__(self) -> None:
        self.seconds = Histogram(
            "serving_predict_seconds", "From a request's first byte to its response.", _SECONDS
        )
        self.batches = Histogram(
            "serving_batch_instances", "Instances predicted in one call.", _INSTANCES
        )
        self._requests: Counter[tuple[str, int]] = Counter()

    def count(self, route: str, status: int) -> None:
        """Count a request; the route is "" if there is none."""
        self._requests[route, status] += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all metrics; `gauges` have help and value by name."""
        name = "serving_requests_total"
        lines = [*_head(name, "Requests by route and status.", "counter")]
        for (route, status), number in sorted(self._requests.items()):
            lines.append(f'{name}{{route="{route}",status="{status}"}} {number}')
        for gauge, (help_, value) in gauges.items():
            lines += [*_head(gauge, help_, "gauge"), f"{gauge} {value:g}"]
        return "\n".join([*lines, *self.seconds.lines(), *self.batches.lines(), ""])


def _head(name: str, help_: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {help_}", f"# TYPE {name} {kind}"
