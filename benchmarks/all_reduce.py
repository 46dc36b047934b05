"""Time of an all-reduce between two replicas, each on a core: the ring against TensorFlow's way.

Both add up vectors within one call of a graph, as a training step does. The replicas only wait in
between: beside a computation on the same core both take longer.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time

from benchmarks.support.clusters import free_ports, tf_config
from benchmarks.support.report import report

NAMES = ["worker/0", "worker/1"]
WAYS = ("ring", "collectives")
SIZES = (100_000, 1_000_000, 10_000_000)
NUM_REPEATS = {100_000: 300, 1_000_000: 50, 10_000_000: 10}
TIMEOUT_SECONDS = 120


def main() -> None:
    """Print a comparison for each size of the vectors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)  # of a replica
    arguments = parser.parse_args()
    if arguments.way:
        sys.stdout.write(json.dumps(measure(arguments.way)) + "\n")
        return
    seconds: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        for way in WAYS:
            seconds[way].append(run_pair(way))
    for size in SIZES:
        ours, theirs = ([1000 * found[str(size)] for found in seconds[way]] for way in WAYS)
        name = f"all-reduce of {size:,} floats between two replicas, against gRPC collectives"
        report(name, ours=ours, theirs=theirs, unit="ms", lower_is_better=True)


def run_pair(way: str) -> dict[str, float]:
    """Return the seconds of an all-reduce by size, as the first of two replicas measures it."""
    addresses = {name: f"127.0.0.1:{port}" for name, port in free_ports(NAMES).items()}
    command = [sys.executable, "-m", "benchmarks.all_reduce", "--way", way]
    started = []
    for core, name in enumerate(NAMES):
        env = {**os.environ, "TF_CONFIG": tf_config(addresses, name), "TF_CPP_MIN_LOG_LEVEL": "3"}
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        os.sched_setaffinity(process.pid, [core % (os.cpu_count() or 1)])
        started.append(process)
    texts = [process.communicate(timeout=TIMEOUT_SECONDS)[0] for process in started]
    found: dict[str, float] = json.loads(texts[0].splitlines()[-1])
    return found


def measure(way: str) -> dict[str, float]:
    """Return the seconds of an all-reduce by size, in this replica of TF_CONFIG."""
    from trainer.cluster.tf_config import parse_tf_config
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    from trainer.runtime.tracing import traced
    from trainer.strategies.collective import CollectiveGroup
    from trainer.strategies.ring_group import RingGroup
    from trainer.training.model.devices import open_devices

    cluster = parse_tf_config(os.environ["TF_CONFIG"])
    open_devices("multi_worker_mirrored", cpu_devices=1)
    kind = RingGroup if way == "ring" else CollectiveGroup
    group = kind(cluster, start_timeout_seconds=60, stop=threading.Event())

    @traced
    def repeat(vector: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda number, _: number < count,
            lambda number, value: (number + 1, 0.5 * group.all_reduce(value)),
            (tf.constant(0), vector),
        )[1]

    seconds = {}
    for size in SIZES:
        vector = tf.ones([size])
        repeat(vector, tf.constant(3)).numpy()
        began = time.perf_counter()
        repeat(vector, tf.constant(NUM_REPEATS[size])).numpy()
        seconds[str(size)] = (time.perf_counter() - began) / NUM_REPEATS[size]
    group.leave()
    return seconds


if __name__ == "__main__":
    main()
