"""The limits of this machine: a core's arithmetic, memory, the loopback; and a step's share of it.

The limit of arithmetic is a product of two matrices. A step of the MNIST CNN on one core is held
against it: its convolutions and dense layers cost two operations for each weight and output, once
forward and twice backward; the first layer needs no gradient of its inputs.
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from math import prod

import numpy as np

from benchmarks.support.clusters import Shape, train

SIZE = 2048  # of the matrices
COPIED_BYTES = 256 << 20
NUM_COPYING = 2
SENT_BYTES = 64 << 20
ROUND_TRIPS = 2000
BATCH_SIZE, STEPS = 256, 250
REPEATS = 15


def main() -> None:
    """Print each limit, and how near to it a step is."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print_line("copying memory, one core", copying_rate() / 1e9, "GB/s")
    with multiprocessing.get_context("fork").Pool(NUM_COPYING) as pool:
        rates = pool.starmap(copying_rate, [()] * NUM_COPYING)
    print_line(f"copying memory, {NUM_COPYING} cores together", sum(rates) / 1e9, "GB/s")
    seconds, rate = loopback()
    print_line("round trip of a byte over the loopback", 1e6 * seconds, "µs")
    print_line("a stream over the loopback", rate / 1e9, "GB/s")
    step = (
        BATCH_SIZE
        / train(
            *(Shape(cores={"chief/0": [0]}), "--model=cnn", f"--batch-size={BATCH_SIZE}"),
            *(f"--steps={STEPS}", "--steps-per-call=25", "--log-every-steps=25"),
        ).examples_per_second
    )
    os.sched_setaffinity(0, [0])  # before TensorFlow starts its threads
    peak = matrix_rate("float32")
    print_line("product of matrices, one core, float32", peak / 1e9, "GFLOP/s")
    print_line("product of matrices, one core, bfloat16", matrix_rate("bfloat16") / 1e9, "GFLOP/s")
    operations = BATCH_SIZE * operations_of_cnn()
    print_line("step of the MNIST CNN, 256 images, one core", 1e3 * step, "ms")
    print_line("its operations", operations / 1e9, "GFLOP")
    print_line("its share of the limit of float32", operations / step / peak, "ratio")


def print_line(name: str, value: float, unit: str) -> None:
    """Print a figure as a line of JSON."""
    sys.stdout.write(
        json.dumps({"name": name, "value": float(f"{value:.3g}"), "unit": unit}) + "\n"
    )
    sys.stdout.flush()


def median_seconds(call: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median time of a call, after one that does not count."""
    call()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def copying_rate() -> float:
    """Return the bytes copied in a second: each is read once and written once."""
    source = np.ones(COPIED_BYTES, np.uint8)
    target = np.empty_like(source)
    return COPIED_BYTES / median_seconds(lambda: np.copyto(target, source))


def loopback() -> tuple[float, float]:
    """Return the seconds of a round trip between two cores, and the rate of a stream in bytes/s."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = multiprocessing.get_context("fork").Process(target=_answer, args=(listener,))
        other.start()
        try:
            with socket.create_connection(listener.getsockname(), timeout=60) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

                def round_trip() -> None:
                    connection.sendall(b"x")
                    connection.recv(1)

                def stream() -> None:
                    connection.sendall(bytes(SENT_BYTES))
                    connection.recv(1)

                seconds = median_seconds(round_trip, ROUND_TRIPS)
                rate = SENT_BYTES / median_seconds(stream, 5)
            other.join(60)
        finally:
            other.kill()
    return seconds, rate


def _answer(listener: socket.socket) -> None:
    os.sched_setaffinity(0, [(os.cpu_count() or 1) - 1])
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(1 << 20)
    for _ in range(ROUND_TRIPS + 1):
        connection.recv_into(buffer, 1)
        connection.sendall(b"x")
    received = 0
    while count := connection.recv_into(buffer):
        received += count
        if received == SENT_BYTES:
            connection.sendall(b"x")
            received = 0


def matrix_rate(kind: str) -> float:
    """Return the operations in a second of a product of matrices."""
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    matrix = tf.cast(tf.random.stateless_normal([SIZE, SIZE], seed=(1, 2)), kind)
    product = tf.function(lambda: tf.linalg.matmul(matrix, matrix))
    return 2 * SIZE**3 / median_seconds(lambda: product().numpy())


def operations_of_cnn() -> int:
    """Return the operations of a step of the MNIST CNN for an image."""
    import keras

    from trainer.workloads.mnist import cnn

    model = cnn(keras.Input((28, 28, 1)))
    layers = [layer for layer in model.layers if hasattr(layer, "kernel")]
    return sum(
        (2 if number == 0 else 3) * 2 * prod(layer.kernel.shape) * prod(layer.output.shape[1:-1])
        for number, layer in enumerate(layers)
    )


if __name__ == "__main__":
    main()
