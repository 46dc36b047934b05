"""Taxi trips to TFRecords on a Dask cluster: two worker processes against one.

The scheduler and the workers run on this machine, each worker with one thread; the time starts when
they are there, after the imports of Beam and the component. The ways alternate; the median of the
rounds is reported.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from distributed import LocalCluster

from benchmarks.prepare_taxi import write_rows
from benchmarks.support.report import report
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions

WORKERS = (2, 1)
START_TIMEOUT_SECONDS = 60


def main() -> None:
    """Print the comparison, and the seconds of each run on stderr."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="default: 5,000,000")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    args = parser.parse_args()
    import apache_beam.runners.portability.fn_api_runner  # noqa: F401

    seconds: dict[int, list[float]] = {count: [] for count in WORKERS}
    with tempfile.TemporaryDirectory(prefix="prepare-on-dask-") as folder:
        write_rows(Path(folder, "rows.csv"), args.rows)
        for _ in range(args.rounds):
            for count in WORKERS:
                seconds[count].append(measure(count, Path(folder)))
                sys.stderr.write(
                    json.dumps({"workers": count, "seconds": seconds[count][-1]}) + "\n"
                )
    two, one = ([args.rows / one for one in seconds[count]] for count in WORKERS)
    report("taxi_dask_two_workers_against_one", ours=two, theirs=one, unit="rows/s", rows=args.rows)


def measure(num_workers: int, folder: Path) -> float:
    """Return the seconds that the command takes on a new cluster."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        LocalCluster(
            n_workers=num_workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            worker_dashboard_address=None,
            local_directory=scratch,
        ) as cluster,
    ):
        cluster.wait_for_workers(num_workers, timeout=START_TIMEOUT_SECONDS)
        flags = ("--runner=DaskRunner", f"--dask_client_address={cluster.scheduler_address}")
        options = PrepareOptions(files=[str(folder / "rows.csv")], beam_options=flags)
        started = time.perf_counter()
        prepare("taxi", output_dir=Path(scratch, "out"), options=options)
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
