"""Replays with real latencies: how many candidates of each kind are stopped in 100 trials.

    python -m tools.soak.replays --trials 100

Two servers compute for some milliseconds per request, in processes of their own, as a model does.
The candidate is equal, twice as slow, or answers one request in twenty otherwise. Prints one JSON
object per kind; the exit code is 0 if bad ones were stopped in 99 % of the trials and equal ones in
at most 5 %.
"""

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from multiprocessing.connection import Connection

from components.release.options import ReleaseOptions
from components.release.replay import answer_in_turns, judge
from vertex_local.tests.support.http_server import Handler

REQUESTS = 200
COMPUTE_SECONDS = 0.002
SHARE_CHANGED = 0.05
OPTIONS = ReleaseOptions(max_changed=0.0)
KINDS = {"equal": (1.0, 0.0), "twice as slow": (2.0, 0.0), "5 % changed": (1.0, SHARE_CHANGED)}


@contextmanager
def server(*, slowdown: float, share_changed: float) -> Iterator[str]:
    """Serve in a process of its own for as long as the block lasts; yield the URL."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_serve, args=(theirs, slowdown, share_changed)
    )
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/predict"
    finally:
        process.terminate()
        process.join(10)


def _serve(pipe: Connection, slowdown: float, share_changed: float) -> None:
    class Model(Handler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            instances = json.loads(self.body())["instances"]
            # A share of the computation is common to both: reading and writing the request.
            end = time.thread_time() + slowdown * COMPUTE_SECONDS
            while time.thread_time() < end:
                pass
            is_changed = random.random() < share_changed
            body = {"predictions": [{"label": "b" if is_changed else "a"} for _ in instances]}
            self.respond(200, json.dumps(body).encode())

    service = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    pipe.send(service.server_port)
    service.serve_forever()


def num_stopped(kind: str, *, trials: int) -> int:
    """Return in how many trials a candidate of this kind is stopped."""
    slowdown, share_changed = KINDS[kind]
    requests = [[{"x": number}] for number in range(REQUESTS)]
    with (
        server(slowdown=slowdown, share_changed=share_changed) as new_url,
        server(slowdown=1.0, share_changed=0.0) as serving_url,
    ):
        found = [
            judge(
                answer_in_turns(requests, new_url=new_url, serving_url=serving_url),
                options=OPTIONS,
            )
            for _ in range(trials)
        ]
    return sum(map(bool, found))


def main() -> int:
    """Parse the command line, run the trials and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    arguments = parser.parse_args()
    trials, is_good = arguments.trials, True
    for kind in arguments.kinds:
        stopped = num_stopped(kind, trials=trials)
        sys.stdout.write(f"{json.dumps({'kind': kind, 'trials': trials, 'stopped': stopped})}\n")
        sys.stdout.flush()
        is_good &= stopped <= 0.05 * trials if kind == "equal" else stopped >= 0.99 * trials
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
