"""The cluster: CPU and memory of each replica, and cost."""

from collections.abc import Sequence

from trainer import Json


def usage_rows(replicas: Sequence[Json]) -> list[tuple[str, str, str]]:
    """Return CPU and memory of the replicas that have ended; containers have none."""
    return [
        (
            replica["name"],
            f"{replica['cpuSeconds']:,.1f} s",
            f"{replica['peakMemoryBytes'] / 1e6:,.0f} MB",
        )
        for replica in replicas
        if "peakMemoryBytes" in replica
    ]
