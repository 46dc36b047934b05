"""Beam's runner on a Dask cluster: `--runner DaskRunner -- --dask_client_address=HOST:PORT`.

The workers of the cluster need `trainyard[dask]`, and the raw files and the output folder under the
same paths. If one is killed, Dask repeats what it has worked on.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from components.prepare_examples.errors import DataError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

RUNNER = "DaskRunner"
_CONNECT_TIMEOUT_SECONDS = 10


def import_runner() -> Any:
    """Return Beam's module of the runner; from then on Beam knows the runner's flags."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"{RUNNER} needs Dask, which is not installed: pip install 'trainyard[dask]'"
        ) from error
    from apache_beam.runners.dask import dask_runner

    return dask_runner


@contextlib.contextmanager
def open_runner(options: "PipelineOptions") -> Iterator[Any]:
    """Yield a runner that runs a pipeline on the cluster of `options`; disconnect afterwards.

    Raises:
        DataError: there is no such cluster, or it has no workers.
    """
    module = import_runner()
    chosen = options.view_as(module.DaskOptions)
    _check_cluster(chosen.address)
    if not (chosen.npartitions or chosen.partition_size):
        # Beam's default is 128 elements in a partition: all of the work on one worker.
        chosen.partition_size = 1
    try:
        yield module.DaskRunner()
    finally:
        from distributed import default_client

        with contextlib.suppress(ValueError):  # raised if there is none
            default_client().close()  # Beam leaves it open


def _check_cluster(address: str | None) -> None:
    """Raise DataError if no cluster is found: Dask would wait without a word."""
    from distributed import Client

    # Without an address Dask would start a cluster of its own, and a page for every interface.
    if not address:
        raise DataError(
            f"{RUNNER} needs the address of a scheduler: add --dask_client_address=HOST:PORT after"
            " --"
        )
    try:
        with Client(address, timeout=_CONNECT_TIMEOUT_SECONDS, set_as_default=False) as client:
            workers = client.scheduler_info()["workers"]
    except (OSError, ValueError) as error:
        raise DataError(
            f"no Dask scheduler answers at {address!r} (--dask_client_address): {error}"
        ) from error
    if not workers:
        raise DataError(f"the Dask cluster at {address} has no workers; start some (dask worker)")
