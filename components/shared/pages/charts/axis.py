"""Axes with round ticks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NUM_INTERVALS = 5
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LARGE, _TINY = 1e5, 1e-3


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear axis from `low` to `high`, with its title and unit, such as `time (s)`."""

    title: str
    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Return the place of a value, 0 at `low` and 1 at `high`; values beyond are cut."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def round_axis(values: Iterable[float], *, title: str, has_zero: bool = False) -> Axis:
    """Return an axis from tick to tick that includes all values, and 0 with `has_zero`."""
    known = [value for value in values if math.isfinite(value)] + [0.0] * has_zero
    least, most = min(known, default=0.0), max(known, default=1.0)
    if most == least:
        spare = abs(least) / 2 or 1.0
        least, most = (0.0 if has_zero else least - spare), most + spare
    step = _step(most - least)
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    return Axis(title=title, low=ticks[0], high=ticks[-1], ticks=ticks)


def tick_text(value: float, ticks: Sequence[float] = ()) -> str:
    """Return a tick as a short number, `12,000`, `0.25` or `1e-05`."""
    size = max(map(abs, ticks), default=abs(value))
    if size >= _LARGE or 0 < size < _TINY:
        return f"{value:.3g}"
    return f"{value:,.10g}" if size >= 1000 else f"{value:.6g}"  # noqa: PLR2004


def _step(size: float) -> float:
    """Return a round distance of about `NUM_INTERVALS` ticks."""
    rough = size / NUM_INTERVALS
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(step for step in STEPS if step * power >= rough * (1 - 1e-9))
