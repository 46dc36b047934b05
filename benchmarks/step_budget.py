"""What a step costs each replica: computing, waiting, packets and bytes.

Each replica runs on a machine of its own with a link without delay (`benchmarks.support.network`;
needs root), so that its traffic is counted alone, and two workers have a core each. Figures are the
difference of a long and a short job, divided by the difference of their steps: the start is left
out. Packets have up to 65 kB; those that only acknowledge others count too.
"""

import argparse
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil

from benchmarks.support.clusters import JOB_TIMEOUT_SECONDS, Shape, scratch, start
from benchmarks.support.network import Link, missing, network

CASES = {
    "multi_worker_mirrored": Shape(chiefs=0, workers=2, cores={"worker/0": [0], "worker/1": [1]}),
    "parameter_server": Shape(workers=2, ps=1, cores={"worker/0": [0], "worker/1": [1]}),
}
BATCH_SIZE = 256
STEPS = (300, 1300)
POLL_SECONDS = 0.05
FAST = Link(delay_seconds=0.0, bits_per_second=100e9)


@dataclass
class Usage:
    """What a process has used so far; times in seconds."""

    cpu: float = 0.0
    received_bytes: int = 0
    received_packets: int = 0
    sent_bytes: int = 0
    sent_packets: int = 0


def main() -> None:
    """Print a line for each replica of each strategy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategies", nargs="+", choices=list(CASES), default=list(CASES))
    arguments = parser.parse_args()
    if lack := missing():
        sys.stderr.write(f"no networks here: {lack}\n")
        return
    for strategy in arguments.strategies:
        report(strategy, CASES[strategy])


def report(strategy: str, shape: Shape) -> None:
    """Print what a step costs each replica; workers share the steps if they do not wait."""
    is_async = shape.ps > 0
    (short, short_seconds), (long, long_seconds) = (
        run(shape, steps, batch_size=BATCH_SIZE * (1 if is_async else shape.workers))
        for steps in STEPS
    )
    steps = STEPS[1] - STEPS[0]
    for name in shape.replicas:
        own = steps / shape.workers if is_async and name.startswith("worker") else steps
        used = [
            (after - before) / own
            for before, after in zip(astuple(short[name]), astuple(long[name]), strict=True)
        ]
        wall = (long_seconds - short_seconds) / own
        line = {
            "name": f"{strategy} {name}",
            "step_ms": 1000 * wall,
            "cpu_ms": 1000 * used[0],
            **dict(zip(("received_kb", "received_packets"), (used[1] / 1e3, used[2]), strict=True)),
            **dict(zip(("sent_kb", "sent_packets"), (used[3] / 1e3, used[4]), strict=True)),
        }
        rounded = {k: round(v, 2) if isinstance(v, float) else v for k, v in line.items()}
        sys.stdout.write(json.dumps(rounded) + "\n")
        sys.stdout.flush()


def run(shape: Shape, steps: int, *, batch_size: int) -> tuple[dict[str, Usage], float]:
    """Run a job; return what each replica has used, and the seconds of the whole job."""
    flags = [f"--steps={steps}", f"--batch-size={batch_size}", "--model=cnn"]
    flags += ["--steps-per-call=25", "--log-every-steps=25", f"--checkpoint-every-steps={10**6}"]
    with scratch() as out, network(shape.replicas, FAST) as machines, ExitStack() as stack:
        began = time.perf_counter()
        replicas = start(stack, out, shape, *flags, workload="mnist", machines=machines)
        used = {name: Usage() for name in replicas}
        first = replicas[shape.replicas[0]]
        while first.poll() is None:
            if time.perf_counter() - began > JOB_TIMEOUT_SECONDS:
                sys.exit(f"the job of {steps} steps has not ended in {JOB_TIMEOUT_SECONDS} s")
            for name, process in replicas.items():
                used[name] = usage_of(process.pid) or used[name]
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - began
    return used, seconds


def usage_of(pid: int) -> Usage | None:
    """Return what a process has used, and the traffic of its machine; None after it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
        devices = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except (psutil.NoSuchProcess, OSError):
        return None
    for device in devices:
        name, _, counts = device.strip().partition(":")
        if name.startswith("ty"):
            values = list(map(int, counts.split()))
            return Usage(times.user + times.system, values[0], values[1], values[8], values[9])
    return None


if __name__ == "__main__":
    main()
