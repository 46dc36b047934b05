"""The split that a table suggests: by files named for it, or by a time that orders its rows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.images.folders import GIVEN
from components.prepare_examples.tables.values.times import DAY_SECONDS, HOUR_SECONDS
from components.prepare_examples.tfrecords.shards import SPLITS
from components.shared.text.value_text import first_of
from pipelines.projects.literals import Source, comment, fill, quoted
from pipelines.projects.starter.columns import Contents
from pipelines.projects.starter.folder import FEW_ROWS
from pipelines.projects.starter.forms import seconds_in
from pipelines.projects.starter.labels import REGRESSION, LabelGuess
from pipelines.projects.starter.texts import GROUP, Guess
from trainer.workloads.declarations.features import Timestamp

MOST_BACK = 0.01  # of the rows are earlier than the row before, at most
FEWEST_TIMES = 20  # different times
FEWEST_ROWS = 10  # of a split
DECADE_SECONDS = 10 * 365 * DAY_SECONDS
WIDE = 3  # times the next gap between times
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
        notes: why, in words.
    """

    line: Source | None = None
    notes: tuple[str, ...] = ()


def split_of_files(paths: Sequence[str]) -> dict[str, str]:
    """Return the split of each file if names say it, as train.csv and test.csv do; else {}."""
    split_of_file = {}
    for path in paths:
        words = re.split(r"[^a-z]+", Path(path).name.lower())
        split_of_file[path] = next((GIVEN[word] for word in words if word in GIVEN), "train")
    splits = {*split_of_file.values()}
    return split_of_file if "train" in splits and len(splits) > 1 else {}


def spellings_of(contents: Contents, name: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return other spellings of the label in the files that do not train, such as `>50K.`.

    They differ by case or points only, and no file that trains has them. Numbers have no others.
    """
    if not files or name not in contents.names:
        return {}
    label = contents.of(name)
    if label.reading.form or label.is_list:
        return {}
    paths = [str(Path(path)) for path, split in files.items() if split == "train"]
    is_train = pc.is_in(contents.paths, pa.array(paths))
    known = label.values.filter(is_train).drop_null().unique().to_pylist()
    plain = {value.casefold().strip(" ."): value for value in known}
    others = {*label.present.unique().to_pylist()} - {*known} if len(plain) == len(known) else ()
    words = {value: plain.get(value.casefold().strip(" .")) for value in sorted(others)}
    return {value: word for value, word in words.items() if word}


def guess_split(
    contents: Contents, guesses: Sequence[Guess], label: LabelGuess, files: dict[str, str]
) -> SplitGuess:
    """Return the split of a table; `files` are of `split_of_files`."""
    if files:
        names = {s: [Path(path).name for path in files if files[path] == s] for s in SPLITS}
        shown = "; ".join(f"{split}: {', '.join(names[split])}" for split in SPLITS if names[split])
        why = f"split by the names of the files ({shown}); to mix them, write a list in files"
        return SplitGuess(notes=(why,))
    for guess in guesses:
        if guess.kind == "Timestamp":
            time = Timestamp(guess.name, **guess.arguments)
            texts = seconds_in(guess.column.values.cast(pa.string()), time)
            seconds = np.asarray(texts.cast(pa.float64()).fill_null(np.nan))
            if _are_ordered(seconds):
                groups = [other.column.name for other in guesses if other.role == GROUP]
                return _by_time(contents, guess.column.name, seconds, label, groups)
    return SplitGuess()


def _are_ordered(seconds: NDArray[np.float64]) -> bool:
    """Return whether times rise or fall from row to row, but for a few."""
    times = seconds[np.isfinite(seconds)]
    steps = np.diff(times)
    if len(np.unique(times)) < FEWEST_TIMES:
        return False
    return bool(min((steps < 0).mean(), (steps > 0).mean()) <= MOST_BACK)


def _by_time(
    contents: Contents,
    name: str,
    seconds: NDArray[np.float64],
    label: LabelGuess,
    groups: Sequence[str],
) -> SplitGuess:
    is_known = np.isfinite(seconds) & np.asarray(label.column.values.is_valid())
    seconds = seconds[is_known]
    values = np.array(label.column.values.to_pylist(), object)[is_known]
    few = contents.num_rows < FEW_ROWS
    later = np.quantile(seconds, (0.6, 0.8) if few else (0.8, 0.9))
    is_short = seconds.max() - later[1] < DAY_SECONDS
    unit, sign = (HOUR_SECONDS, "h") if is_short else (DAY_SECONDS, "d")
    end = np.ceil((seconds.max() + 1) / unit) * unit
    test = max(round((end - later[1]) / unit), 1)
    eval_ = max(round((end - test * unit - later[0]) / unit), 1)
    rule = fill(RULE, quoted(name), eval_, test, sign=sign)
    starts = end - np.array([test + eval_, test]) * unit
    parts = np.searchsorted(starts, seconds, side="right")
    gaps = np.sort(np.diff(np.unique(seconds)))
    reasons = {
        f"rows of one {first_of(groups, 1)} are kept in one split": groups,
        f"{name} jumps by {gaps[-1] / DAY_SECONDS:,.0f} days": (
            gaps[-1] > max(DECADE_SECONDS, WIDE * gaps[-2])
        ),
        "only the first rows were read": not contents.is_whole,
        _lack([values[parts == at] for at in range(len(SPLITS))], label): True,
    }
    why = next(reason for reason, is_so in reasons.items() if is_so)
    ordered = f"rows are ordered by {name}"
    if why:
        change = f"write split: {rule} in run.yaml{' and remove group_by' * bool(groups)}"
        note = f"{ordered}, but the split is by a hash: {why}; to judge by later rows, {change}"
        return SplitGuess(notes=(note,))
    note = (
        f"{ordered}, so split: {rule}: later rows judge the model, as in use; remove it in"
        " run.yaml to split by a hash"
    )
    return SplitGuess(line=fill(LINES, comment(name), rule), notes=(note,))


def _lack(values: Sequence[NDArray[np.object_]], label: LabelGuess) -> str:
    """Return what a split by time would lack, or ""."""
    for split, own in zip(SPLITS, values, strict=True):
        if len(own) < FEWEST_ROWS:
            return f"by time {split} would have {len(own)} rows"
        if label.kind != REGRESSION and len({*own}) == 1:
            return f"by time {split} would have one value of {label.column.name}, {own[0]!r}"
        if label.kind != REGRESSION and (new := sorted({*own} - {*values[0]})):
            return f"by time {split} would have {label.column.name} {new[0]!r}, which train lacks"
    return ""
