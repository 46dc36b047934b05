"""How steps are cut into calls: each step once, for any number of workers and restarts."""

from random import Random

import pytest

from trainer.strategies.calls import chunks

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("seed", range(50))
def test_every_step_is_in_one_call_whatever_was_interrupted(seed):
    random = Random(seed)
    total, start, done = random.randint(1, 500), 0, []
    size = random.choice([0, random.randint(1, 70)])
    while start < total:
        calls = list(
            chunks(
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
