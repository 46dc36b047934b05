"""workload.py for a table: guesses of its features and label."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import find_files
from components.shared.text.value_text import first_of
from pipelines.projects.literals import (
    Source,
    comment,
    fill,
    literal,
    quoted,
)
from pipelines.projects.scripts.record import RecordedScript
from pipelines.projects.starter.columns import Contents, read_columns
from pipelines.projects.starter.folder import Start, check_number
from pipelines.projects.starter.guesses import guess_column
from pipelines.projects.starter.labels import LabelGuess, guess_label
from pipelines.projects.starter.leaks import leaks_of
from pipelines.projects.starter.notes import notes_of, shared
from pipelines.projects.starter.pictures import PictureColumn, find_picture_column
from pipelines.projects.starter.recorded_table import as_used, label_of, record
from pipelines.projects.starter.splits import (
    SplitGuess,
    guess_split,
    spellings_of,
    split_of_files,
)
from pipelines.projects.starter.texts import FEATURE, GROUP, IGNORED, KEY, Guess
from pipelines.projects.starter.typed_columns import LIST_SEPARATOR
from trainer import Json
from trainer.workloads.declarations.names import declared_names

NUM_INSTANCES = 2
LINE = 100
BATCHES = ((2_000, 32), (20_000, 128), (200_000, 256))  # rows below which a batch has this size
LARGE_BATCH = 512
MOST_SHOWN = 5
SOURCE = '''\
"""{title}

Written by `trainyard new` from {rows} {num_rows:,} rows. Comments say what was seen.
{remark}"""

{imports}from trainyard import {kinds}
{adapter}
workload = Table(
    features=[
{features}    ],
{arguments})
'''


def start_table(
    patterns: Sequence[str],
    label: str,
    *,
    kind: str = "",
    positive: str = "",
    script: Path | None = None,
    header: Sequence[str] = (),
    images: str = "",
    told: Mapping[str, str] | None = None,
) -> Start:
    """Return the folder's content for a table.

    `kind` and `positive` are of `guess_label`, `header` and `told` of `read_columns`. `images` is
    the folder of the pictures that the rows name.

    Raises:
        DataError: a file is no table, or there is no such label; or the rows name no pictures.
    """
    paths = find_files([str(Path(pattern)) for pattern in patterns])
    contents = read_columns(paths, header=header, told=told)
    check_number(contents.num_rows, paths[0], "rows")
    code = record(script, contents, label=label, kind=kind) if script else None
    declared = {column.declared: column.name for column in contents.columns}
    [label] = declared_names([code.label_column if code else label], contents.names, declared)
    files = split_of_files(patterns) if len(patterns) == len(paths) else {}
    if code:
        target = label_of(code, contents, contents.of(label), positive=positive)
    else:
        spellings = spellings_of(contents, label, files)
        target = guess_label(contents, label, kind=kind, positive=positive, spellings=spellings)
    picture = find_picture_column(contents, label, images, paths) if images else None
    guesses = _guesses(contents, label, picture, code)
    if not any(guess.role == FEATURE for guess in guesses):
        seen = "".join(f"; {guess.column.name}: {guess.seen}" for guess in guesses)
        raise DataError(
            f"{paths[0]} has no column besides {label} that a model could learn from{seen}"
        )
    beside = [guess for guess in guesses if not picture or guess.column is not picture.column]
    leaks = leaks_of(beside, target)
    split = SplitGuess() if code else guess_split(contents, guesses, target, files)
    return Start(
        workload=_source(contents, guesses, target, leaks, script=code, header=header),
        data=(*patterns, *filter(None, [images])),
        splits={} if code else files,
        split=split.line,
        num_examples=contents.num_rows,
        thresholds=target.thresholds,
        remark=target.remark,
        instances=_instances(guesses, picture),
        code=code.files if code else {},
        train=code.train if code else {} if picture else {"batch_size": _batch_size(contents)},
        num_dropped=sum(code.dropped.values()) if code else 0,
        notes=(
            *(code.notes if code else ()),
            *(_on_required(guesses, code) if code else ()),
            *shared((guess, leaks[guess.name]) for guess in beside if guess.name in leaks),
            *(picture.notes() if picture else ()),
            *split.notes,
            *notes_of(contents, beside, target),
        ),
    )


def _guesses(
    contents: Contents, label: str, picture: PictureColumn | None, script: RecordedScript | None
) -> list[Guess]:
    named = picture.column.name if picture else label
    columns = [column for column in contents.columns if column.name not in (label, named)]
    guesses = list(picture.guesses if picture else ())
    guesses += [guess_column(column, contents.num_rows) for column in columns]
    # One column decides about the split: that of the pictures, whose rows must not be in two.
    deciding = [guess for guess in guesses if guess.role in (KEY, GROUP)]
    deciding.sort(key=lambda guess: (guess.column.name != named, guess.role != KEY))
    guesses = [replace(own, role=IGNORED) if own in deciding[1:] else own for own in guesses]
    if not any(guess.role == FEATURE for guess in guesses):  # x of a curve, perhaps
        guesses = [replace(g, role=FEATURE, is_said=True) if g.kind else g for g in guesses]
    return [as_used(guess, script) for guess in guesses]


def _on_required(guesses: Sequence[Guess], script: RecordedScript) -> Iterator[str]:
    """Yield which numbers are required, since the script has no value for a missing one."""
    names = [
        guess.column.name
        for guess in guesses
        if "is_required" in guess.arguments and guess.name not in script.dropped
    ]
    if names:
        yield (
            f"never missing: {first_of(names, MOST_SHOWN)}; so is_required=True: {script.path.name}"
            " has no value for a missing one; later rows without one are quarantined, and counted."
            " To keep them, let model fill the value"
        )


def _batch_size(contents: Contents) -> int:
    """Return the size of batches; the default model's recipe says how many steps there are."""
    return next((size for most, size in BATCHES if contents.num_rows < most), LARGE_BATCH)


def _source(
    contents: Contents,
    guesses: Sequence[Guess],
    label: LabelGuess,
    leaks: Mapping[str, str],
    *,
    script: RecordedScript | None,
    header: Sequence[str],
) -> Source:
    features = [guess for guess in guesses if guess.role == FEATURE]
    kinds = {guess.kind for guess in features} | {"Table", label.kind.title()}
    declared: list[Source] = []
    for guess in features:
        name = guess.column.name * guess.column.needs_alias
        note = "; ".join(filter(None, [name, guess.seen, leaks.get(guess.name, "")]))
        declared += _with_comment(fill("        {},", guess.declaration), note)
    lines = _with_comment(fill("    label={},", label.declaration), label.seen)
    ignored: list[Source] = []
    for guess in guesses:
        name = quoted(guess.name)
        if guess.role == KEY:
            lines += _with_comment(fill("    key={},", name), guess.seen)
        elif guess.role == GROUP:
            seen = f"{guess.seen}, all in the same split"
            lines += _with_comment(fill("    group_by=[{}],", name), seen)
        elif guess.role == IGNORED:
            pattern = re.sub(r"([*?[])", r"[\1]", guess.column.name)
            ignored += _with_comment(fill("        {},", quoted(pattern)), guess.seen)
    lines += ignored and [Source("    ignored=[\n"), *ignored, Source("    ],\n")]
    used = {guess.column.name: guess.column for guess in guesses if guess.role != IGNORED}
    aliases = [
        fill("        {}: {},\n", quoted(column.name), quoted(column.declared))
        for column in (label.column, *used.values())
        if column.needs_alias
    ]
    lines += aliases and [Source("    aliases={\n"), *aliases, Source("    },\n")]
    if header:
        lines.append(fill("    header={},\n", literal([*header])))
    if script:
        lines.append(fill("    model=model,\n{}", script.arguments))
    return fill(
        SOURCE,
        title=f"{label.column.name} from {len(features)} feature{'s' * (len(features) > 1)}.",
        rows="all" if contents.is_whole else "the first",
        num_rows=contents.num_rows,
        remark=script and script.remark,
        imports=script and script.imports,
        kinds=", ".join(sorted(kinds)),
        adapter=script and script.adapter,
        features=declared,
        arguments=lines,
    )


def _with_comment(line: Source, text: str) -> list[Source]:
    """Return a line with a comment behind it, or before it if both are too long."""
    shown = comment(text)
    if len(line) + len(shown) + 4 <= LINE:
        return [fill("{}  # {}\n", line, shown)]
    indent = len(line) - len(line.lstrip())
    room = LINE - indent - 2
    cut = shown if len(shown) <= room else comment(f"{shown[: room - 1]}…")
    return [fill("{:>{}} {}\n{}\n", "#", indent + 1, cut, line)]


def _instances(guesses: Sequence[Guess], picture: PictureColumn | None) -> list[Json]:
    features = [guess for guess in guesses if guess.role == FEATURE and guess.kind != "Image"]
    required = [guess for guess in features if "is_required" in guess.arguments]
    instances: list[Json] = []
    rows = picture.instances() if picture else ((row, {}) for row in itertools.count())
    for row, instance in itertools.islice(rows, len(guesses[0].column.values)):
        own = {g.column.name: _plain(g, row) for g in features if g.column.values[row].is_valid}
        if all(guess.column.name in own for guess in required):
            instances.append({**instance, **own})
        if len(instances) == NUM_INSTANCES:
            break
    return instances


def _plain(guess: Guess, row: int) -> Any:
    """Return a value as a request has it."""
    text = guess.column.values[row].as_py()
    if guess.column.facts.length or "separator" in guess.arguments:
        items = [item.strip() for item in text.split(LIST_SEPARATOR)]
        return items if guess.kind == "Category" else [float(item) for item in items]
    is_number = guess.kind == "Number" or guess.seen.startswith("Unix ")
    number = guess.column.per_row[row]
    return text if not is_number else int(number) if number.is_integer() else float(number)
