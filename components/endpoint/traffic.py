"""Traffic splits of an endpoint: percentages by id of the deployed model."""

Split = dict[str, int]

WHOLE = 100


def all_to(split: Split, deployed_id: str) -> Split:
    """Return the split with all traffic on one deployed model."""
    return {**dict.fromkeys(split, 0), deployed_id: WHOLE}


def handed_over(split: Split, former_id: str, deployed_id: str) -> Split:
    """Return the split after a deployed model takes over the share of another."""
    share = split.get(former_id, 0)
    return {**split, former_id: 0, deployed_id: split.get(deployed_id, 0) + share}


def with_share(split: Split, deployed_id: str, *, percentage: int) -> Split:
    """Return the split after a deployed model gets `percentage`, and the others the rest.

    The others keep their proportions. If no other has traffic, the model gets all of it.
    """
    rest = {key: value for key, value in split.items() if key != deployed_id and value > 0}
    if not rest:
        return {deployed_id: WHOLE}
    return {**scaled(rest, WHOLE - percentage), deployed_id: percentage}


def without(split: Split, deployed_id: str, *, heir: str = "") -> Split:
    """Return the split after a deployed model is removed; the others keep their proportions.

    If no other has traffic, `heir` gets all of it.
    """
    rest = {key: value for key, value in split.items() if key != deployed_id and value > 0}
    if rest:
        return scaled(rest, WHOLE)
    return {heir: WHOLE} if heir else {}


def restored(now: Split, deployed_id: str, *, before: Split, moved: Split) -> Split:
    """Return the split after a deployed model gives back what it got from `before` to `moved`.

    If the split was changed meanwhile, the others keep their proportions. If no other model has
    traffic, nothing changes. `before` has only the models that are still deployed.
    """
    if any(before.values()) and _shares(now) == _shares(moved):
        return scaled(before, WHOLE)
    share = before.get(deployed_id, 0)
    if now.get(deployed_id, 0) <= share:
        return now
    return with_share(now, deployed_id, percentage=share)


def _shares(split: Split) -> Split:
    return {key: value for key, value in split.items() if value}


def scaled(split: Split, total: int) -> Split:
    """Scale a split to whole percentages that add up to `total`.

    Shares are rounded down; the rest goes to the largest remainders.
    """
    whole = sum(split.values())
    shares = {key: divmod(value * total, whole) for key, value in split.items()}
    left = total - sum(quotient for quotient, _ in shares.values())
    by_remainder = sorted(shares, key=lambda key: shares[key][1], reverse=True)
    return {key: quotient + (key in by_remainder[:left]) for key, (quotient, _) in shares.items()}
