"""Steps divided into calls: each step once, for any number of workers and restarts."""

from random import Random

import pytest

from trainer.strategies.calls import split_into_calls


@pytest.mark.parametrize("seed", range(10))
def test_every_step_is_in_one_call_after_any_interruption(seed):
    random = Random(seed)
    for _ in range(5):
        total, start, done = random.randint(1, 500), 0, []
        size = random.choice([0, random.randint(1, 70)])
        while start < total:
            steps_per_call = random.randint(1, 60)
            calls = list(
                split_into_calls(
                    start,
                    total,
                    steps_per_call=steps_per_call,
                    num_workers=random.randint(1, 7),
                    steps_per_block=size,
                )
            )
            for first, count in calls:
                assert 1 <= count <= steps_per_call
                assert not size or first // size == (first + count - 1) // size, "in one block"
            kept = calls[: random.randint(1, len(calls))]
            done += [step for first, count in kept for step in range(first, first + count)]
            start = done[-1] + 1
        assert done == list(range(total))
    assert list(split_into_calls(5, 5, steps_per_call=9, num_workers=2)) == []


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
