"""Axes with round ticks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.shared.text.value_text import number_text

NUM_INTERVALS = 5
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
UNITS, LARGEST = ((1e9, "B"), (1e6, "M")), 1e12


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear axis from `low` to `high`, with its title and unit, such as `time (s)`.

    `names` are the texts of the ticks, if these are not numbers.
    """

    title: str
    low: float
    high: float
    ticks: tuple[float, ...]
    names: tuple[str, ...] = ()

    @property
    def texts(self) -> list[tuple[float, str]]:
        """The ticks with their texts."""
        names = self.names or [tick_text(tick, self.ticks) for tick in self.ticks]
        return list(zip(self.ticks, names, strict=True))

    def share(self, value: float) -> float:
        """Return the place of a value, 0 at `low` and 1 at `high`; values beyond are cut."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def round_axis(values: Iterable[float], *, title: str, has_zero: bool = False) -> Axis:
    """Return an axis from tick to tick that includes all values, and 0 with `has_zero`."""
    known = [value for value in values if math.isfinite(value)]
    if has_zero:
        known.append(0.0)
    least, most = min(known, default=0.0), max(known, default=1.0)
    if most == least:
        spare = abs(least) / 2 or 1.0
        least, most = (0.0 if has_zero else least - spare), most + spare
    step = _step(most - least)
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    return Axis(title=title, low=ticks[0], high=ticks[-1], ticks=ticks)


def tick_text(value: float, ticks: Sequence[float] = ()) -> str:
    """Return a tick as a short number, `12,000`, `0.25`, `0.00001` or `2.5M`."""
    size = max(map(abs, ticks), default=abs(value))
    unit, suffix = next((u for u in UNITS if u[0] <= size < LARGEST), (1, ""))
    return f"{number_text(value / unit)}{suffix}" if value else "0"


def _step(size: float) -> float:
    """Return a round distance of about `NUM_INTERVALS` ticks."""
    rough = size / NUM_INTERVALS
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(step for step in STEPS if step * power >= rough * (1 - 1e-9))
