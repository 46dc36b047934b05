"""The split that a table suggests: by files named for it, or by a time that orders its rows."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.images.folders import GIVEN
from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.values.times import DAY_SECONDS, HOUR_SECONDS, parse_times
from components.prepare_examples.tfrecords.shards import SPLITS
from pipelines.projects.literals import Source, comment, fill, quoted
from pipelines.projects.starter.columns import Contents
from pipelines.projects.starter.folder import FEW_ROWS
from pipelines.projects.starter.labels import REGRESSION, LabelGuess
from pipelines.projects.starter.texts import GROUP, Guess, Texts
from trainer.workloads.declarations.features import Timestamp

MOST_BACK = 0.01  # of the rows are earlier than the row before, at most
FEWEST_TIMES = 20  # different times
FEWEST_ROWS = 10  # of a split
RULE = "{{by: {}, eval: {}{sign}, test: {}{sign}}}"
LINES = """\
  # rows are ordered by {}: later rows judge the model, as in use. Without split: by a hash.
  split: {}
"""


@dataclass(frozen=True)
class SplitGuess:
    """Guess of a split.

    Attributes:
        line: for run.yaml, below `prepare`; None for shares by a hash.
        files: the split of each file, by its path as the user gave it.
        notes: why, in words.
    """

    line: Source | None = None
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def split_of_files(paths: Sequence[str]) -> dict[str, str]:
    """Return the split of each file if names say it, as train.csv and test.csv do; else {}."""
    split_of_file = {}
    for path in paths:
        words = re.split(r"[^a-z]+", Path(path).name.lower())
        split_of_file[path] = next((GIVEN[word] for word in words if word in GIVEN), "train")
    splits = {*split_of_file.values()}
    return split_of_file if "train" in splits and len(splits) > 1 else {}


def spellings_of(contents: Contents, label: Texts, files: dict[str, str]) -> dict[str, str]:
    """Return other spellings of the label in the files that do not train, such as `>50K.`.

    They differ by case or points only, and no file that trains has them. Numbers have no others.
    """
    is_text = label.reading.form is None and not label.is_list
    if not files or not is_text:
        return {}
    is_train = pc.is_in(contents.paths, value_set=pa.array(_paths_of(files, "train")))
    known = label.values.filter(is_train).drop_null().unique().to_pylist()
    rare_values = label.values.filter(pc.invert(is_train)).drop_null().unique().to_pylist()
    plain = {_plain(value): value for value in known}
    if len(plain) < len(known) or not known:
        return {}
    return {
        value: plain[_plain(value)]
        for value in rare_values
        if value not in known and _plain(value) in plain
    }


def _paths_of(files: dict[str, str], split: str) -> list[str]:
    return [str(Path(path)) for path, split_of_file in files.items() if split_of_file == split]


def _plain(value: str) -> str:
    return value.casefold().strip(" .")


def with_spellings(contents: Contents, name: str, spellings: dict[str, str]) -> Contents:
    """Return the contents with one spelling of each value of a column."""
    column = contents.of(name)
    values = column.values.dictionary_encode()
    texts = [spellings.get(text, text) for text in values.dictionary.to_pylist()]
    read = replace(column.reading, values=pa.array(texts, pa.string()).take(values.indices))
    columns = [replace(item, reading=read) if item is column else item for item in contents.columns]
    return replace(contents, columns=columns)


def guess_split(
    contents: Contents, guesses: Sequence[Guess], label: LabelGuess, files: dict[str, str]
) -> SplitGuess:
    """Return the split of a table.

    `files` are of `split_of_files`.
    """
    if files:
        shown = "; ".join(
            f"{split}: {', '.join(Path(path).name for path in _paths_of(files, split))}"
            for split in SPLITS
            if _paths_of(files, split)
        )
        why = f"split by the names of the files ({shown}); to mix them, write a list in files"
        return SplitGuess(files=files, notes=(why,))
    for guess in guesses:
        seconds = _seconds(guess) if guess.kind == "Timestamp" else None
        if seconds is not None and _are_ordered(seconds):
            return _by_time(contents, guess, seconds, label, guesses)
    return SplitGuess()


def _by_time(
    contents: Contents,
    guess: Guess,
    seconds: NDArray[np.float64],
    label: LabelGuess,
    guesses: Sequence[Guess],
) -> SplitGuess:
    name = guess.column.name
    is_known = np.isfinite(seconds) & label.column.values.is_valid().to_numpy(zero_copy_only=False)
    shares = (0.6, 0.8) if contents.num_rows < FEW_ROWS else (0.8, 0.9)
    later = np.quantile(seconds[is_known], shares)
    unit, sign = DAY_SECONDS, "d"
    end = np.ceil((seconds[is_known].max() + 1) / unit) * unit
    if end - later[1] < 2 * unit:
        unit, sign = HOUR_SECONDS, "h"
        end = np.ceil((seconds[is_known].max() + 1) / unit) * unit
    test = max(round((end - later[1]) / unit), 1)
    eval_ = max(round((end - test * unit - later[0]) / unit), 1)
    rule = fill(RULE, quoted(name), eval_, test, sign=sign)
    ordered = f"rows are ordered by {name}"
    groups = [other.column.name for other in guesses if other.role == GROUP]
    starts = np.array([end - (test + eval_) * unit, end - test * unit])
    numbers = np.searchsorted(starts, seconds[is_known], side="right")
    lacks = _lacks(numbers, label, is_known)
    if groups or lacks or not contents.is_whole:
        why = lacks or "only the first rows were read"
        why = f"rows of one {groups[0]} are kept in one split" if groups else why
        return SplitGuess(
            notes=(
                f"{ordered}, but the split is by a hash: {why}; to judge the model by later rows,"
                f" write split: {rule} in run.yaml" + " and remove group_by" * bool(groups),
            )
        )
    return SplitGuess(
        line=fill(LINES, comment(name), rule),
        notes=(
            f"{ordered}, so split: {rule}: later rows judge the model, as in use; remove it in"
            " run.yaml to split by a hash",
        ),
    )


def _lacks(numbers: NDArray[np.int64], label: LabelGuess, is_known: NDArray[np.bool_]) -> str:
    values = np.array(label.column.values.to_pylist(), object)[is_known]
    train = {*values[numbers == 0]}
    for number, split in enumerate(SPLITS):
        own = values[numbers == number]
        if len(own) < FEWEST_ROWS:
            return f"by time {split} would have {len(own)} rows"
        if label.kind == REGRESSION:
            continue
        if len({*own}) == 1:
            return f"by time {split} would have one value of {label.column.name}, {own[0]!r}"
        if new := sorted({*own} - train):
            return f"by time {split} would have {label.column.name} {new[0]!r}, which train lacks"
    return ""


def _seconds(guess: Guess) -> NDArray[np.float64] | None:
    known = Timestamp(guess.name, format=guess.arguments.get("format", ""))
    seconds = parse_times(guess.column.values.cast(pa.string()), BadRows(), known, zones=Counter())
    times: NDArray[np.float64] = seconds.cast(pa.float64()).fill_null(np.nan).to_numpy()
    return times


def _are_ordered(seconds: NDArray[np.float64]) -> bool:
    """Return whether times rise or fall from row to row, but for a few."""
    times = seconds[np.isfinite(seconds)]
    if len(np.unique(times)) < FEWEST_TIMES:
        return False
    steps = np.diff(times)
    return bool(min((steps < 0).mean(), (steps > 0).mean()) <= MOST_BACK)
