"""The line that a benchmark prints for a comparison."""

import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any


def report(
    name: str,
    *,
    ours: float | Sequence[float],
    theirs: float | Sequence[float],
    unit: str,
    lower_is_better: bool = False,
    **more: Any,
) -> None:
    """Print one comparison as a line of JSON; with a ratio above 1, ours is better.

    Of several rounds it prints medians. The ratio is taken within a round, in which other load
    slows both.

    Args:
        name: what is compared.
        ours: our figure, or that of each round.
        theirs: the other figure, or that of each round.
        unit: of both.
        lower_is_better: whether the better figure is the lower one, as of times.
        more: other entries of the line.
    """
    pairs = list(zip(_rounds(ours), _rounds(theirs), strict=True))
    line = {
        "name": name,
        "ours": statistics.median(mine for mine, _ in pairs),
        "theirs": statistics.median(other for _, other in pairs),
        "unit": unit,
        "ratio": statistics.median(
            other / mine if lower_is_better else mine / other for mine, other in pairs
        ),
        **more,
    }
    rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in line.items()}
    sys.stdout.write(json.dumps(rounded) + "\n")
    sys.stdout.flush()


def _rounds(found: float | Sequence[float]) -> Sequence[float]:
    return found if isinstance(found, Sequence) else [found]
