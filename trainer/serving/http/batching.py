"""Batches of concurrent requests, predicted in one call of the model each.

A call into TensorFlow costs little more for many instances than for one. While one batch is
predicted in a thread, the event loop collects the next. A lone instance is predicted at once; by a
fast model in the event loop itself, since a change of threads would take as long.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from trainer.serving.http.limits import ServerLimits
from trainer.serving.http.messages import Request, RequestError

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class PredictionJob:
    """A request for predictions.

    Attributes:
        request: a cancelled one is not predicted.
        signature: jobs of one signature can share a batch.
        content: what `predict` takes.
        num_instances, num_bytes: its size; bytes of memory.
        deliver: called with the job in the event loop when `result` or `error` is set.
        began: when it was queued, in seconds of the monotonic clock.
    """

    request: Request
    signature: str
    content: Any
    num_instances: int
    num_bytes: int
    deliver: Callable[["PredictionJob"], None]
    began: float = 0.0
    result: Any = None
    error: Exception | None = None


# If lone instances take less, the next is predicted in the event loop, which is delayed as long.
_SHORT_SECONDS = 0.002
_NUM_LONE = 16

Predict = Callable[[list[Any]], Sequence[Any]]


class Batcher:
    """A bounded queue of jobs, and a thread that calls `predict(contents)` for batches.

    `predict` returns a result for each content. If it raises, the batch is halved until the jobs
    that fail are alone. All other methods belong to the event loop.
    """

    def __init__(
        self,
        predict: Predict,
        *,
        limits: ServerLimits,
        on_batch: Callable[[int], None] = lambda num_instances: None,
    ):
        self._predict, self._limits, self._on_batch = predict, limits, on_batch
        self._loop = asyncio.get_running_loop()
        self._queue: deque[PredictionJob] = deque()
        self._num_queued_bytes = 0
        self._is_idle, self._is_scheduled = True, False
        # Of the last batches of one instance; a single short one may have been an exception.
        self._lone_seconds: deque[float] = deque(maxlen=_NUM_LONE)
        self._batches: SimpleQueue[list[PredictionJob]] = SimpleQueue()
        threading.Thread(target=self._run, name="predictions", daemon=True).start()

    @property
    def num_queued(self) -> int:
        """The number of jobs that wait."""
        return len(self._queue)

    def submit(self, job: PredictionJob) -> None:
        """Queue a job; RequestError 503 if the queue is full."""
        if (
            len(self._queue) >= self._limits.queued_requests
            or self._num_queued_bytes + job.num_bytes > self._limits.queued_bytes
        ):
            raise RequestError(503, f"{len(self._queue)} requests wait already; try again later")
        job.began = time.monotonic()
        self._queue.append(job)
        self._num_queued_bytes += job.num_bytes
        if self._is_idle and not self._is_scheduled:
            # After the other connections that are readable now.
            self._is_scheduled = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_scheduled = False
        while self._is_idle and (batch := self._take()):
            num_instances = sum(job.num_instances for job in batch)
            self._on_batch(num_instances)
            self._is_idle = False
            if num_instances == 1 and not self._queue and self._is_fast():
                self._predict_timed(batch)
                self._finish(batch)
            else:
                self._batches.put(batch)

    def _take(self) -> list[PredictionJob]:
        """Remove the next batch from the queue; drop jobs that are cancelled or too old."""
        batch: list[PredictionJob] = []
        num_instances, oldest = 0, time.monotonic() - self._limits.queued_seconds
        while self._queue:
            job = self._queue[0]
            if batch and (
                job.signature != batch[0].signature
                or num_instances + job.num_instances > self._limits.batch_instances
            ):
                break
            self._queue.popleft()
            self._num_queued_bytes -= job.num_bytes
            if job.request.is_cancelled:
                continue
            if job.began < oldest:
                seconds = self._limits.queued_seconds
                job.error = RequestError(504, f"no prediction within {seconds:.0f} s")
                _deliver(job)
                continue
            batch.append(job)
            num_instances += job.num_instances
        return batch

    def _run(self) -> None:
        while True:
            batch = self._batches.get()
            self._predict_timed(batch)
            try:
                self._loop.call_soon_threadsafe(self._finish, batch)
            except RuntimeError:  # the loop is closed: the server did not wait any longer
                return

    def _predict_timed(self, batch: list[PredictionJob]) -> None:
        began = time.monotonic()
        self._predict_all(batch)
        if len(batch) == 1 and batch[0].num_instances == 1:
            self._lone_seconds.append(time.monotonic() - began)

    def _is_fast(self) -> bool:
        return len(self._lone_seconds) == _NUM_LONE and max(self._lone_seconds) < _SHORT_SECONDS

    def _predict_all(self, jobs: list[PredictionJob]) -> None:
        try:
            results = self._predict([job.content for job in jobs])
            for job, result in zip(jobs, results, strict=True):
                job.result = result
        except Exception as error:  # of the user's code too: the server continues
            if len(jobs) == 1:
                jobs[0].error = error
                return
            half = len(jobs) // 2
            self._predict_all(jobs[:half])
            self._predict_all(jobs[half:])

    def _finish(self, batch: list[PredictionJob]) -> None:
        self._is_idle = True
        self._dispatch()
        for job in batch:
            _deliver(job)


def _deliver(job: PredictionJob) -> None:
    """Deliver a job; one that cannot be delivered does not affect the others of its batch."""
    try:
        job.deliver(job)
    except Exception:
        logger.exception("cannot deliver a prediction")
