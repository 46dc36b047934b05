"""Columns that tell the label, and so may be known only afterwards."""

from collections.abc import Sequence

from components.evaluate.gate.telling import Floats
from pipelines.projects.leaks import codes_of, find_leaks
from pipelines.projects.starter.labels import BINARY, CLASSES, LabelGuess
from pipelines.projects.starter.texts import FEATURE, Guess


def leaks_of(guesses: Sequence[Guess], label: LabelGuess) -> dict[str, str]:
    """Return a warning by the name of each feature that tells the label, alone or with others."""
    features = {guess.name: guess for guess in guesses if guess.role == FEATURE}
    has_classes = label.kind in (BINARY, CLASSES)
    target = label.column
    values = codes_of(target.values) if has_classes else target.per_row
    columns = {
        name: (codes_of(guess.column.values), numbers_of(guess)) for name, guess in features.items()
    }
    after = "remove it if it is known only afterwards"
    words = find_leaks(columns, values, has_classes=has_classes)
    return {name: f"tells {target.name} {words[name]}: {after}" for name in words}


def numbers_of(guess: Guess) -> Floats:
    """Return the numbers of a feature, or those of its two values; no numbers of other features."""
    column = guess.column
    is_flag = guess.kind == "Category" and column.num_unique == 2  # noqa: PLR2004
    return codes_of(column.values) if is_flag else column.per_row
