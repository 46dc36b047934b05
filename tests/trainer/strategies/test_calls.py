"""Steps divided into calls: each step once, for any number of workers and restarts."""

from random import Random

import pytest

from trainer.strategies.calls import split_into_calls

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("seed", range(50))
def test_every_step_is_in_one_call_after_any_interruption(seed):
    random = Random(seed)
    total, start, done = random.randint(1, 500), 0, []
    size = random.choice([0, random.randint(1, 70)])
    while start < total:
        calls = list(
            split_into_calls(
                start,
                total,
                steps_per_call=random.randint(1, 60),
                num_workers=random.randint(1, 5),
                steps_per_block=size,
            )
        )
        for first, count in calls:
            assert not size or first // size == (first + count - 1) // size, "in one block"
        kept = calls[: random.randint(1, len(calls))]
        done += [step for first, count in kept for step in range(first, first + count)]
        start = done[-1] + 1
    assert done == list(range(total))


@pytest.mark.parametrize("num_workers", [1, 2, 7])
@pytest.mark.parametrize("steps_per_call", [1, 20, 50])
@pytest.mark.parametrize(("start", "stop"), [(0, 1290), (0, 1), (37, 500), (5, 5)])
def test_calls_cover_each_step_once(start, stop, steps_per_call, num_workers):
    calls = list(
        split_into_calls(start, stop, steps_per_call=steps_per_call, num_workers=num_workers)
    )
    steps = [step for first, count in calls for step in range(first, first + count)]
    assert steps == list(range(start, stop))
    assert all(1 <= count <= steps_per_call for _, count in calls)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_calls_end_at_each_boundary(num_workers):
    calls = list(
        split_into_calls(
            5,
            200,
            steps_per_call=50,
            num_workers=num_workers,
            boundary_after=lambda step: min(end for end in (3, 70, 71, 400) if end > step),
        )
    )
    assert sum(count for _, count in calls) == 195
    assert {70, 71} <= {first for first, _ in calls}


def test_the_last_calls_of_several_workers_are_small():
    counts = [count for _, count in split_into_calls(0, 1000, steps_per_call=50, num_workers=2)]
    assert counts[0] == 50
    assert counts[-2:] == [1, 1]
