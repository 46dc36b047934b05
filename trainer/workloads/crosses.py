"""Lists of sizes and of crossed columns, as they are written in settings."""

import difflib
import math
from collections.abc import Mapping

# Each has a weight for each class, and the optimizer's vectors beside it: some 200 MB.
MOST_COMBINATIONS = 5_000_000


def parse_sizes(text: str) -> tuple[int, ...]:
    """Returns (128, 64) of `128,64`; ValueError says what is wrong."""
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        raise ValueError(
            f"hidden-units: {text!r} is not allowed; give whole numbers from 1, such as 128,64"
        )
    return tuple(map(int, sizes))


def parse_crosses(text: str, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Returns (("a", "b"), ("c", "d")) of `a:b,c:d`, () of `none`; ValueError says what is wrong.

    `sizes` are the most categories of each column.
    """
    if text.strip() == "none":
        return ()
    crosses = [tuple(name.strip() for name in part.split(":")) for part in text.split(",")]
    for cross in crosses:
        _check_cross(cross, sizes)
    if twice := [":".join(cross) for cross in crosses if crosses.count(cross) > 1]:
        raise ValueError(f"crosses: {twice[0]} is there twice")
    return tuple(crosses)


def _check_cross(cross: tuple[str, ...], sizes: Mapping[str, int]) -> None:
    shown = ":".join(cross)
    if unknown := [name for name in cross if name not in sizes]:
        near = difflib.get_close_matches(unknown[0], sizes, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"crosses: {unknown[0]!r} in {shown!r} is no column; there are"
            f" {', '.join(sizes)}{meant}"
        )
    if len(set(cross)) != len(cross) or len(cross) < 2:  # noqa: PLR2004
        raise ValueError(
            f"crosses: {shown!r} is not allowed; join two or more different columns by ':', and the"
            " crosses by ','"
        )
    if (count := math.prod(sizes[name] for name in cross)) > MOST_COMBINATIONS:
        raise ValueError(
            f"crosses: {shown!r} has up to {count:,} combinations; at most"
            f" {MOST_COMBINATIONS:,} are allowed: cross fewer columns"
        )
