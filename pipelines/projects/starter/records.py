"""workload.py for TFRecords of tf.train.Examples: features from the first records, and a model."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import (
    example_features,
    read_records,
    why_no_example,
)
from components.prepare_examples.raw_data.files import find_files
from components.prepare_examples.tables.reading.kinds import RECORDS, file_kind
from pipelines.projects.literals import (
    Source,
    call,
    comment,
    fill,
    quoted,
)
from pipelines.projects.scripts.record import RecordedScript, record_function
from pipelines.projects.starter.folder import Start, check_number
from pipelines.projects.starter.guesses import ID_NAME, MOST_CODES
from pipelines.projects.starter.labels import BINARY, CLASSES, MOST_CLASSES, MULTILABEL, REGRESSION
from pipelines.projects.starter.names import valid_names
from pipelines.projects.starter.record_text import (
    DECODER,
    MODEL,
    SOURCE,
    Seen,
    encoded_line,
    feature_line,
    is_usable,
    part_line,
    why_unused,
)
from trainer.errors import did_you_mean

NUM_RECORDS = 1_000
MOST_FILES = 50
COMBINED = Source("keras.layers.concatenate(list(inputs.values()))")


def start_records(
    sources: Sequence[str], label: str, *, kind: str = "", script: Path | None = None
) -> Start:
    """Return the folder's content for TFRecords.

    The model is the script's, or a net over all features.

    Raises:
        DataError: a file is damaged, or has no such label, or no feature that a model can get.
    """
    paths, data = _files(sources)
    seen, num_records, notes = _read(paths, label)
    check_number(num_records, paths[0], "records")
    if label not in seen:
        hint, names = did_you_mean(label, seen), ", ".join(sorted(seen))
        raise DataError(f"--label {label}:{hint} the records have {names}")
    target = seen.pop(label)
    chosen = _kind(label, target, kind)
    used = _used(seen, num_records)
    if not used:
        why = "; ".join(_reasons(seen))
        raise DataError(f"{paths[0]}: no feature but {label} that a model could get; {why}")
    unused = {name: feature for name, feature in seen.items() if name not in used}
    code = record_function(script) if script else None
    told = f"tells {label} alone: remove it if it is known only afterwards"
    values = Counter(map(str, target.values))
    reasons = _reasons(unused)
    lines = [feature_line(name, feature, num_records) for name, feature in used.items()]
    return Start(
        workload=fill(
            SOURCE,
            names=", ".join(used),
            label=label,
            num=num_records,
            imports=code and code.imports,
            used=", ".join(sorted({"Records", "Values", chosen.title()})),
            decoder=DECODER if any(feature.is_image for feature in used.values()) else None,
            encoded=[encoded_line(name, feature) for name, feature in used.items()],
            model=_model_text(used, chosen, code),
            features=[*lines, *(fill("        # {}\n", comment(why)) for why in reasons)],
            declaration=call(chosen.title(), label),
            num_values=len(values),
            arguments=code and code.arguments,
        ),
        data=data,
        num_examples=num_records,
        thresholds="{rmse: {at_most: 1.0}}" if chosen == REGRESSION else "{accuracy: 0.8}",
        remark=f"the most frequent label has {values.most_common(1)[0][1] / num_records:.1%}",
        code=code.files if code else {},
        train=code.train if code else {},
        notes=(
            *(code.notes if code else ()),
            *notes,
            *(f"{name}: {told}" for name in used if used[name].tells(target, num_records)),
            *_reasons(unused, "left out: "),
        ),
    )


def _model_text(used: Mapping[str, Seen], kind: str, script: RecordedScript | None) -> Source:
    if script:
        first, *more = sorted(feature.input for feature in used.values())
        return script.adapter(COMBINED if more else fill("inputs[{}]", quoted(first)))
    outputs = Source("len(labels)") if kind in (CLASSES, MULTILABEL) else 1
    return fill(MODEL, parts=map(part_line, used.values()), outputs=outputs)


def _used(seen: Mapping[str, Seen], num_records: int) -> dict[str, Seen]:
    """Return the features that a model can get, sorted; all get the names of their inputs."""
    names = valid_names(seen)
    for name, feature in seen.items():
        feature.input = names[name]
        may_be = feature.size == 1 and (ID_NAME.search(name.lower()) or feature.dtype == "string")
        feature.is_identifier = (
            bool(may_be) and len(set(feature.values)) == num_records > MOST_CODES
        )
    return {name: each for name, each in sorted(seen.items()) if each.size and is_usable(each)}


def _reasons(seen: Mapping[str, Seen], before: str = "") -> Iterator[str]:
    for name, feature in sorted(seen.items()):
        yield f"{name}: {before}{why_unused(feature)}"


def _files(sources: Sequence[str]) -> tuple[list[Path], tuple[str, ...]]:
    paths: list[Path] = []
    patterns: list[str] = []
    for name in sources:
        pattern = _pattern(Path(name))
        paths += map(Path, find_files([pattern]))
        patterns.append(pattern)
    for path in paths:
        if path.stat().st_size and file_kind(str(path)) != RECORDS:
            raise DataError(f"{path} holds no TFRecords; name the files, or a pattern of them")
    return paths, tuple(patterns)


def _pattern(path: Path) -> str:
    """Return a file, the pattern of a folder's files that are named as records, or the folder."""
    if not path.exists():
        raise DataError(f"--records {path}: there is no such file or folder")
    usual = (str(path / name) for name in ("*.tfrecord*", "*.tfrec*", "*.records*"))
    return next((pattern for pattern in usual if glob(pattern)), str(path))


def _read(paths: Sequence[Path], label: str) -> tuple[dict[str, Seen], int, tuple[str, ...]]:
    seen: dict[str, Seen] = {}
    chosen = paths[:: -(-len(paths) // MOST_FILES)]
    num_each = NUM_RECORDS // len(chosen)
    records = (
        record for path in chosen for record in itertools.islice(read_records(path), num_each)
    )
    num_records, reasons = 0, Counter[str]()
    for record in records:
        features = example_features(record)
        if features is None:
            reasons[why_no_example(record)] += 1
            continue
        num_records += 1
        targets = [values for name, _, values in features if name == label]
        for name, dtype, values in features:
            if values:
                seen.setdefault(name, Seen()).add(dtype, values, targets[0] if targets else [])
    if not num_records and not reasons:
        raise DataError(f"{paths[0]} has no records")
    if not num_records:
        raise DataError(f"{paths[0]}: each record {next(iter(reasons))}")
    notes = (f"left out: {count:,} records; each {why}" for why, count in reasons.items())
    return seen, num_records, tuple(notes)


def _kind(label: str, seen: Seen, kind: str) -> str:
    values = set(seen.values)
    if len(values) < 2:  # noqa: PLR2004
        raise DataError(f"--label {label}: it has one value in all records that were read")
    if seen.is_mixed:
        raise DataError(f"--label {label}: it is {why_unused(seen)}")
    if seen.size != 1 and seen.dtype != "string":
        sizes = " or ".join(map(str, sorted(seen.lengths)[:3]))
        raise DataError(
            f"--label {label}: it has {sizes} numbers in a record; a label has one"
            " (several texts are a Multilabel)"
        )
    if not kind and seen.dtype == "int64":
        kind = BINARY if values == {0, 1} else CLASSES
    kind = kind or (REGRESSION if seen.dtype == "float32" else CLASSES if seen.size else MULTILABEL)
    if kind == REGRESSION and seen.dtype != "float32":
        raise DataError(f"--kind regression: {label} is {seen.dtype} in the records, not float32")
    if kind == BINARY and values - {0, 1}:
        raise DataError(f"--kind binary: {label} has {sorted(values)[:5]}, not 0 and 1")
    if kind == CLASSES and seen.dtype == "int64" and len(values) > MOST_CLASSES * 50:
        raise DataError(f"--label {label}: {len(values):,} whole numbers are no classes")
    return kind
