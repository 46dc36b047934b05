"""Batches of concurrent requests, with a function in place of the model."""

import asyncio
import threading
import time

import pytest

from trainer.serving.http import batching
from trainer.serving.http.batching import Batcher, PredictionJob
from trainer.serving.http.limits import ServerLimits
from trainer.serving.http.messages import Request, RequestError

pytestmark = pytest.mark.fast
TIMEOUT_SECONDS = 20


class Model:
    """Returns contents, after `proceed` is set; refuses "bad" ones. `calls` has its batches."""

    def __init__(self):
        self.proceed = threading.Event()
        self.proceed.set()
        self.calls, self.threads = [], []

    def __call__(self, contents):
        self.calls.append((*contents,))
        self.threads.append(threading.current_thread())
        assert self.proceed.wait(TIMEOUT_SECONDS)
        if "bad" in contents:
            raise ValueError("bad")
        return contents


class Jobs:
    """Jobs of a batcher; `done` has those that were delivered."""

    def __init__(self, batcher):
        self.batcher, self.done = batcher, []

    def submit(self, content, *, signature="a", size=1, num_bytes=1):
        request = Request(method="POST", path="/", headers={})
        job = PredictionJob(
            request=request,
            signature=signature,
            content=content,
            num_instances=size,
            num_bytes=num_bytes,
            deliver=self.done.append,
        )
        self.batcher.submit(job)
        return job

    async def wait(self, count):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(self.done) < count:
                await asyncio.sleep(0.001)
        return [(job.content, job.result, str(job.error or "")) for job in self.done]


@pytest.fixture
def run():
    """Run a test in an event loop, with a model and jobs."""

    def do(test, **limits):
        async def main():
            model = Model()
            await test(model, Jobs(Batcher(model, limits=ServerLimits(**limits))))

        asyncio.run(main())

    return do


def test_a_lone_request_is_predicted_at_once_and_others_are_collected_meanwhile(run):
    async def test(model, jobs):
        model.proceed.clear()
        jobs.submit(0)
        await asyncio.sleep(0)
        for content in (1, 2, 3):
            jobs.submit(content)
        model.proceed.set()
        assert await jobs.wait(4) == [(n, n, "") for n in range(4)]
        assert model.calls == [(0,), (1, 2, 3)]

    run(test)


@pytest.mark.parametrize(("short_seconds", "is_here"), [(60, True), (0, False)])
def test_a_lone_instance_of_a_fast_model_is_predicted_in_the_event_loop(
    run, monkeypatch, short_seconds, is_here
):
    monkeypatch.setattr(batching, "_SHORT_SECONDS", short_seconds)

    async def test(model, jobs):
        for count in range(1, 18):
            jobs.submit(count)
            await jobs.wait(count)
        here = threading.current_thread()
        assert [thread is here for thread in model.threads] == [*[False] * 16, is_here]

    run(test)


def test_batches_have_one_signature_and_a_maximum_size(run):
    async def test(model, jobs):
        for content, signature, size in [
            (0, "a", 3),
            (1, "a", 1),
            (2, "a", 1),
            (3, "b", 1),
            (4, "b", 9),
        ]:
            jobs.submit(content, signature=signature, size=size)
        await jobs.wait(5)
        assert model.calls == [(0, 1), (2,), (3,), (4,)]

    run(test, batch_instances=4)


def test_an_invalid_request_fails_alone(run):
    async def test(model, jobs):
        for content in (*range(10), "bad", *range(10, 20)):
            jobs.submit(content)
        found = await jobs.wait(21)
        assert found[10] == ("bad", None, "bad")
        assert [result for _, result, error in found if not error] == list(range(20))
        assert len(model.calls) < 12  # halves, not one by one

    run(test)


def test_a_failed_delivery_does_not_affect_others(run):
    def fail(_job):
        raise OSError("disk full")

    async def test(model, jobs):
        model.proceed.clear()
        jobs.submit(0)
        await asyncio.sleep(0)
        jobs.submit(1).deliver = fail
        late = jobs.submit(2)
        late.began, late.deliver = time.monotonic() - 61, fail
        jobs.submit(3)
        model.proceed.set()
        assert await jobs.wait(2) == [(0, 0, ""), (3, 3, "")]

    run(test)


def test_a_full_queue_refuses(run):
    async def test(model, jobs):
        model.proceed.clear()
        jobs.submit(0)
        await asyncio.sleep(0)
        jobs.submit(1, num_bytes=60)
        with pytest.raises(RequestError) as too_large:
            jobs.submit(2, num_bytes=41)
        jobs.submit(2)
        with pytest.raises(RequestError) as too_many:
            jobs.submit(3)
        assert (too_large.value.status, too_many.value.status) == (503, 503)
        model.proceed.set()
        await jobs.wait(3)
        jobs.submit(4, num_bytes=100)
        await jobs.wait(4)

    run(test, queued_requests=2, queued_bytes=100)


def test_what_waited_too_long_or_has_no_client_is_not_predicted(run):
    async def test(model, jobs):
        model.proceed.clear()
        jobs.submit(0)
        await asyncio.sleep(0)
        jobs.submit(1).request.is_cancelled = True
        old = jobs.submit(2)
        old.began = time.monotonic() - 61
        jobs.submit(3)
        model.proceed.set()
        await jobs.wait(3)
        assert model.calls == [(0,), (3,)]
        assert old.error.status == 504

    run(test)


def test_a_prediction_that_ends_after_the_server_ends_its_thread_without_an_error():
    model = Model()
    model.proceed.clear()

    async def stop_early():
        Jobs(Batcher(model, limits=ServerLimits())).submit("a")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not model.calls:
                await asyncio.sleep(0.001)

    asyncio.run(stop_early())
    model.proceed.set()
    model.threads[0].join(TIMEOUT_SECONDS)
    assert not model.threads[0].is_alive()
