"""The data of a trial: some examples as a run prepares them, or all if it would refuse those."""

from dataclasses import dataclass
from pathlib import Path

from components.evaluate.folds import folds_note, num_folds
from components.evaluate.gate.options import GateOptions
from components.evaluate.gate.undefined import absent_classes
from components.evaluate.leaks import train_columns
from components.prepare_examples.errors import DataError
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.prepare import notes, prepare, read_manifest
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.tables.reading.encodings import explained
from components.shared.text.value_text import first_of
from pipelines.projects.leaks import AFTER, find_leaks
from trainer import Json
from trainer.workloads import Image, Records, Table, Workload
from trainer.workloads.declarations.labels.classes import NEEDED_CLASSES

# Prepared in a second or two.
MOST_ROWS, MOST_VALUES, MOST_RECORDS, MOST_PICTURES = 20_000, 1_000_000, 2_000, 500
NUM_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Examples in a folder, unless nothing can be used, and what a run would refuse.

    `is_whole` is True if a run would use the same ones.
    """

    folder: Path
    is_whole: bool
    errors: list[DataError]

    @property
    def manifest(self) -> Json:
        """The manifest of the examples."""
        return read_manifest(self.folder)


def prepare_some(
    reference: str, workload: Workload, *, options: PrepareOptions, folder: Path, data_dir: str
) -> Prepared:
    """Prepare the first examples, or all that a run uses if it would refuse the first ones."""
    options = _without_service(options)
    most = _most_examples(workload)
    is_whole = 0 < options.max_examples <= most

    def prepared(chosen: PrepareOptions) -> list[DataError]:
        errors: list[DataError] = []
        try:
            prepare(
                reference,
                output_dir=folder,
                data_dir=data_dir,
                options=chosen,
                refuse=errors.append,
            )
        except DataError as error:
            return errors or [error]  # the others are the reason
        return errors

    errors = prepared(options if is_whole else options.replace(max_examples=most))
    if not is_whole:
        is_whole = (folder / MANIFEST).exists() and _num_read(read_manifest(folder)) < most
        if errors and not is_whole:
            is_whole, errors = True, prepared(options)
    return Prepared(folder=folder, is_whole=is_whole, errors=errors)


def _most_examples(workload: Workload) -> int:
    if isinstance(workload, Records):
        return MOST_RECORDS
    features = workload.features if isinstance(workload, Table) else ()
    if not features or any(isinstance(feature, Image) for feature in features):
        return MOST_PICTURES
    return max(MOST_ROWS, MOST_VALUES // len(features))


def describe(prepared: Prepared, workload: Workload, gate: GateOptions) -> str:
    """Return in words what was read, what may be wrong with it, and what judges the model."""
    manifest = prepared.manifest
    lines = notes(manifest) if "rows" in manifest else [f"{_num_read(manifest):,} examples"]
    lines[0] = f"{'all' if prepared.is_whole else 'the first'} {lines[0]}"
    if (bad := manifest.get("quarantine", {})).get("files"):
        lines.insert(1, f"bad: {quarantine.worst_columns(bad, prepared.folder, explained)}")
    lines += _leaks(prepared.folder, workload)
    if prepared.is_whole:
        lines += [
            f"the {split} split has no {', '.join(map(repr, names))}"
            for split, names in absent_classes(prepared.folder, workload.label).items()
        ]
        lines += filter(None, [folds_note(manifest, gate)])
    return "; ".join(lines)


def undefined_metric(
    prepared: Prepared, workload: Workload, gate: GateOptions, thresholds: Json
) -> str:
    """Return a problem if the verdict needs a class that the test split lacks, else ""."""
    label = workload.label
    absent = absent_classes(prepared.folder, label).get("test") if prepared.is_whole else None
    if not absent or num_folds(prepared.manifest, gate):
        return ""
    metric = gate.metric or label.default_metric(len(workload.labels))
    needed = [name for name in {metric: 0, **thresholds} if name in NEEDED_CLASSES]
    if not needed:
        return ""
    return (
        f"the test split has no example of the class {absent[0]!r} of {label.column!r}, so"
        f" {' and '.join(needed)} cannot be measured and no model passes; use more examples, other"
        " ratios of the splits, or another gate.metric"
    )


def _without_service(options: PrepareOptions) -> PrepareOptions:
    """Return the options of one file for each split, without what only a service has."""
    baseline = "" if options.baseline == PREVIOUS else options.baseline
    options = options.replace(num_shards={"train": 1}, compression="none", baseline=baseline)
    if options.source != "bigquery":
        return options
    return options.replace(source="files", project="", limit=0, dates=(), window="")


def _num_read(manifest: Json) -> int:
    num_examples = sum(split["num_examples"] for split in manifest["splits"].values())
    return int(manifest["rows"]["read"] if "rows" in manifest else num_examples)


def _leaks(folder: Path, workload: Workload) -> list[str]:
    """Return in words which columns tell the label, alone or together."""
    label = workload.label
    columns, labels = train_columns(str(folder), workload)
    first = {column.name: column for column in reversed(columns)}  # of the parts of a time
    has_classes = not label.is_number
    leaks = find_leaks([*first.values()][::-1], labels, has_classes=has_classes)
    told = [f"{name} tells {label.column} {words}" for name, words in leaks.items()]
    return [f"{first_of(told, NUM_SHOWN)}: {AFTER}"] if told else []
