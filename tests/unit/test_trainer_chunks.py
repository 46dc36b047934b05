"""How steps are cut into calls: each step once, for any number of workers and restarts."""

from random import Random

import pytest

from trainer.chunks import chunks


@pytest.mark.parametrize("seed", range(50))
def test_every_step_is_in_one_call_whatever_was_interrupted(seed):
    random = Random(seed)
    total, start, done = random.randint(1, 500), 0, []
    while start < total:
        calls = list(
            chunks(
                start,
                total,
                steps_per_call=random.randint(1, 60),
                num_workers=random.randint(1, 5),
            )
        )
        kept = calls[: random.randint(1, len(calls))]
        done += [step for first, count in kept for step in range(first, first + count)]
        start = done[-1] + 1
    assert done == list(range(total))
