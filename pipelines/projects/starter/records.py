"""workload.py for TFRecords of tf.train.Examples: features from the first records, and a model."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import read_records
from pipelines.projects.starter.folder import Start
from pipelines.projects.starter.guesses import ID_NAME, MOST_CODES, quoted, valid_name
from pipelines.projects.starter.keras_script import Script
from pipelines.projects.starter.labels import BINARY, CLASSES, MOST_CLASSES, MULTILABEL, REGRESSION
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
KINDS = {"float_list": "float32", "int64_list": "int64", "bytes_list": "string"}


def start_records(
    given: Sequence[str], label: str, *, kind: str = "", script: Script | None = None
) -> Start:
    """Return the folder's content for TFRecords.

    Args:
        given: a folder of TFRecords, or files.
        label: the label's feature.
        kind: of the label; default: guessed.
        script: that builds the model; default: a net over all features.

    Raises:
        DataError: a file is damaged, or has no such label, or no feature that a model can get.
    """
    paths, data = _files(given)
    seen, num_records = _read(paths)
    if label not in seen:
        raise DataError(
            f"--label {label}:{did_you_mean(label, seen)} the records have"
            f" {', '.join(sorted(seen))}"
        )
    target = seen.pop(label)
    chosen, declaration = _declaration(label, target, kind)
    for name, one in seen.items():
        one.is_identifier = bool(ID_NAME.search(name.lower())) or one.dtype == "string"
        one.is_identifier &= one.size == 1 and len(set(one.values)) == num_records > MOST_CODES
    used = {name: one for name, one in seen.items() if one.size and is_usable(one)}
    if not used:
        raise DataError(f"{paths[0]}: no feature but {label} has as many values in each record")
    values = Counter(map(str, target.values))
    return Start(
        workload=SOURCE.format(
            names=", ".join(sorted(used)),
            label=label,
            num=num_records,
            imports="".join(f"{line}\n" for line in script.imports) if script else "",
            used=", ".join(sorted({"Records", "Values", declaration.partition("(")[0]})),
            decoder=DECODER if any(one.is_image for one in used.values()) else "",
            encoded="\n".join(
                f"        {encoded_line(name, one)}," for name, one in sorted(used.items())
            ),
            model=_model_text(used, chosen, script),
            features="\n".join(_feature_lines(seen, used, num_records)),
            declaration=declaration,
            seen=f"  # {len(values)} values",
        ),
        data=data,
        num_examples=num_records,
        thresholds="{rmse: {at_most: 1.0}}" if chosen == REGRESSION else "{accuracy: 0.8}",
        remark=f"the most frequent label has {values.most_common(1)[0][1] / num_records:.1%}",
        code=script.files if script else {},
    )


def _model_text(used: Mapping[str, Seen], kind: str, script: Script | None) -> str:
    """Return the source of the model: the script's, or a net over all features."""
    if script:
        first, *others = sorted(valid_name(name) for name in used)
        combined = "keras.layers.concatenate(list(inputs.values()))"
        return script.adapter(combined if others else f"inputs[{quoted(first)}]")
    parts = ",\n".join(f"        {part_line(name, one)}" for name, one in sorted(used.items()))
    outputs = "len(labels)" if kind in (CLASSES, MULTILABEL) else "1"
    return MODEL.format(parts=parts, outputs=outputs)


def _feature_lines(
    seen: Mapping[str, Seen], used: Mapping[str, Seen], num_records: int
) -> Iterator[str]:
    """Yield the declaration of each used feature, then a comment on each other one."""
    for name, one in sorted(used.items()):
        yield feature_line(name, one, num_records)
    for name, one in sorted(seen.items()):
        if name not in used:
            yield f"        # {name}: {why_unused(one)}"


def _files(given: Sequence[str]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the files, and the patterns that a run.yaml names."""
    if len(given) == 1 and Path(given[0]).is_dir():
        folder = Path(given[0])
        for pattern in ("*.tfrecord*", "*.tfrec*", "*.records*"):
            if found := sorted(folder.glob(pattern)):
                return found, (str(folder / pattern),)
        raise DataError(f"{folder} has no files *.tfrecord*; name the files instead")
    missing = [path for path in given if not Path(path).is_file()]
    if missing:
        raise DataError(f"--records {missing[0]}: there is no such file or folder")
    return [Path(path) for path in given], tuple(given)


def _read(paths: Sequence[Path]) -> tuple[dict[str, Seen], int]:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    seen: dict[str, Seen] = {}
    records = itertools.chain.from_iterable(read_records(path) for path in paths)
    num_records = 0
    for record in itertools.islice(records, NUM_RECORDS):
        num_records += 1
        try:
            features = tf.train.Example.FromString(record).features.feature
        except DecodeError as error:
            raise DataError(f"{paths[0]}: record {num_records} is no tf.train.Example") from error
        for name, feature in features.items():
            if kind := feature.WhichOneof("kind"):
                values = getattr(feature, kind).value
                one = seen.setdefault(name, Seen(KINDS[kind]))
                one.num_records += 1
                one.lengths[len(values)] += 1
                one.values += values[:3]
    if not num_records:
        raise DataError(f"{paths[0]} has no records")
    return seen, num_records


def _declaration(label: str, seen: Seen, kind: str) -> tuple[str, str]:
    """Return the kind of the label and its declaration."""
    values = set(seen.values)
    if len(values) < 2:  # noqa: PLR2004
        raise DataError(f"--label {label}: it has one value in all records that were read")
    name = quoted(label)
    if not kind and seen.dtype == "int64":
        kind = BINARY if values == {0, 1} else CLASSES
    kind = kind or (REGRESSION if seen.dtype == "float32" else CLASSES if seen.size else MULTILABEL)
    if kind == REGRESSION and seen.dtype != "float32":
        raise DataError(f"--kind regression: {label} is {seen.dtype} in the records, not float32")
    if kind == BINARY and values - {0, 1}:
        raise DataError(f"--kind binary: {label} has {sorted(values)[:5]}, not 0 and 1")
    if kind == CLASSES and seen.dtype == "int64" and len(values) > MOST_CLASSES * 50:
        raise DataError(f"--label {label}: {len(values):,} whole numbers are no classes")
    kinds = {
        BINARY: "Binary",
        CLASSES: "Classes",
        MULTILABEL: "Multilabel",
        REGRESSION: "Regression",
    }
    return kind, f"{kinds[kind]}({name})"
