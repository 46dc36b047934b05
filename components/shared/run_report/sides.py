"""Examples that one of two models predicts correctly and the other does not."""

from collections.abc import Sequence
from dataclasses import dataclass

from components.shared.run_report.content import Content
from trainer import Json

NO_ANSWERS = "unknown: an evaluation does not have the predictions of all examples"
OTHER_EXAMPLES = "not comparable: the runs have different test examples"


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Numbers of examples by which model is right, and the mistakes that only one makes.

    `gained` has mistakes of the first run that the second predicts correctly, `lost` the opposite.
    The lists are shorter than the numbers: an evaluation keeps only its surest mistakes.
    """

    both_right: int
    only_first: int
    only_second: int
    both_wrong: int
    gained: Sequence[Json]
    lost: Sequence[Json]


def changed_sides(first: Content, second: Content) -> Sides | str:
    """Return the comparison, or the reason for having none."""
    answers = [content.evaluation.get("answers") or {} for content in (first, second)]
    if not all(answers):
        return NO_ANSWERS
    truth, a, b = answers[0]["labels"], answers[0]["predicted"], answers[1]["predicted"]
    if answers[1]["labels"] != truth or len(a) != len(b) or _names(first) != _names(second):
        return OTHER_EXAMPLES
    right = [(x == t, y == t) for t, x, y in zip(truth, a, b, strict=True)]
    return Sides(
        both_right=right.count((True, True)),
        only_first=right.count((True, False)),
        only_second=right.count((False, True)),
        both_wrong=right.count((False, False)),
        gained=_mistakes(first, {i for i, sides in enumerate(right) if sides == (False, True)}),
        lost=_mistakes(second, {i for i, sides in enumerate(right) if sides == (True, False)}),
    )


def count_sides(sides: Sides) -> str:
    """Return the numbers in words."""
    return (
        f"Both are right on {sides.both_right:,} test examples and both wrong on"
        f" {sides.both_wrong:,}. Only A is right on {sides.only_first:,}, only B on"
        f" {sides.only_second:,}."
    )


def _mistakes(content: Content, places: set[int]) -> list[Json]:
    return [
        mistake
        for mistake in content.evaluation.get("mistakes") or []
        if mistake.get("index") in places
    ]


def _names(content: Content) -> list[str]:
    names: list[str] = content.evaluation.get("labels") or []
    return names
