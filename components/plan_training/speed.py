"""Predicted speed of a training cluster, from what its replicas compute and send.

The costs of messages and bytes are those that `benchmarks.network` fits on half of its measured
jobs; with them it predicts the other half (docs/performance.md).
"""

from dataclasses import dataclass, replace

BYTES_PER_WEIGHT = 4


@dataclass(frozen=True, kw_only=True)
class Network:
    """Links of the machines.

    Attributes:
        latency: Seconds from one machine to another, one way.
        bandwidth: Bits per second of each machine, in each direction.
    """

    latency: float
    bandwidth: float


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a strategy adds to a step.

    Attributes:
        message: Seconds of an empty message on a network without latency.
        latencies: How often a message takes the network's latency.
        wire: Seconds on the wire for each second that the content alone would take.
        copying: Seconds to copy a million bytes.
    """

    message: float
    latencies: float
    wire: float
    copying: float


# As `benchmarks.network` prints them.
COSTS = {
    "multi_worker_mirrored": Costs(message=1.6e-4, latencies=0.87, wire=0.90, copying=1.6e-3),
    "parameter_server": Costs(message=1.9e-3, latencies=2.8, wire=1.26, copying=1.3e-3),
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job on CPUs.

    Attributes:
        is_asynchronous: Whether workers update parameter servers, instead of their sum in a ring.
        workers: Number of replicas that compute.
        servers: Number of parameter servers.
        weights: Number of the model's weights.
        computing: Seconds in which a replica computes a step, without its messages.
    """

    is_asynchronous: bool
    workers: int
    servers: int = 0
    weights: float
    computing: float

    @property
    def num_messages(self) -> int:
        """Messages of a replica in a step that follow each other."""
        return 2 if self.is_asynchronous else 2 * (self.workers - 1)

    @property
    def num_bytes(self) -> float:
        """Bytes that a replica sends and receives one after the other in a step."""
        size = BYTES_PER_WEIGHT * self.weights
        return 2 * size if self.is_asynchronous else size * self.num_messages / self.workers


def batches_per_second(job: Job, network: Network, costs: Costs) -> float:
    """Return the batches that all replicas of a job compute in a second.

    Synchronous replicas take a step together. Asynchronous workers do not wait for each other, but
    share the links of the parameter servers, to which each sends its gradients.
    """
    seconds = (
        job.computing
        + job.num_messages * (costs.message + costs.latencies * network.latency)
        + job.num_bytes * (8 * costs.wire / network.bandwidth + costs.copying / 1e6)
    )
    if not job.is_asynchronous:
        return job.workers / seconds
    sent = 8 * BYTES_PER_WEIGHT * job.weights * costs.wire / network.bandwidth
    return min(job.workers / seconds, job.servers / sent)


def speed_up(job: Job, network: Network, costs: Costs) -> float:
    """Return how many times as many batches a job computes as one replica alone."""
    return batches_per_second(job, network, costs) * job.computing


def added_by_another(job: Job, network: Network, costs: Costs) -> float:
    """Return what one more worker adds to the speed-up; negative if it costs more than it does."""
    more = replace(job, workers=job.workers + 1)
    return speed_up(more, network, costs) - speed_up(job, network, costs)
