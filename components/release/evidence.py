"""Exact binomial test of a share against its limit."""

import math

# Probability of a false alarm: a share at its limit is taken for a larger one this often.
CHANCE = 0.01


def is_above(count: int, total: int, *, limit: float, chance: float = CHANCE) -> bool:
    """Return whether `count` of `total` are evidence of a share above `limit`.

    They are if a share of exactly `limit` would give as many, or more, with a probability below
    `chance`: a one-sided exact binomial test.
    """
    if count <= limit * total:
        return False
    return _probability_of(count, total, share=limit) < chance


def _probability_of(count: int, total: int, *, share: float) -> float:
    """Return the probability of `count` or more of `total`, each with the probability `share`."""
    if share <= 0 or share >= 1:
        return float(share >= 1 or count <= 0)
    logs = (
        math.lgamma(total + 1)
        - math.lgamma(k + 1)
        - math.lgamma(total - k + 1)
        + k * math.log(share)
        + (total - k) * math.log1p(-share)
        for k in range(count, total + 1)
    )
    return math.fsum(map(math.exp, logs))
