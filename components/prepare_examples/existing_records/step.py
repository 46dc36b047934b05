"""Preparation of records that exist already."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import sample_of
from components.prepare_examples.existing_records.record_schema import schema_of
from components.prepare_examples.existing_records.write import (
    RecordOptions,
    RecordPart,
    write_part,
)
from components.prepare_examples.images.folder_step import ALLOWED
from components.prepare_examples.images.folders import GIVEN
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import (
    Manifest,
    finish_dataset,
    source_entry,
    split_rule,
    splits_of_entries,
    statistics_of,
)
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import find_files, sha256_of
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.checks import check_label
from components.prepare_examples.tables.results import finish
from components.prepare_examples.tables.table_schema import label_words
from components.prepare_examples.tfrecords.shards import COMPRESSIONS
from trainer import Json
from trainer.workloads import Workload

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RecordJob:
    """Planned parts, the options of writing them, and facts for the manifest."""

    parts: list[RecordPart]
    options: RecordOptions
    settings: PrepareOptions
    split_rule: str
    sources: list[Json]

    def explain(self) -> list[str]:
        """Return the plan as text, a line for each file."""
        lines = [self.split_rule]
        for part in self.parts:
            numbers = ", ".join(f"{shard:05d}" for shard in part.shards)
            place = f"shard {numbers} of {self.options.num_shards}"
            lines += [f"{place}: {path}" for path, _ in part.files]
        return lines

    def write(self, folder: Path) -> None:
        """Write the shards, the statistics and then the manifest.

        Raises:
            DataError: a file is damaged, too many records are bad, a split is empty, the label has
                one value, or there are anomalies that block.
        """
        result = run_pipeline(
            self.parts,
            partial(write_part, options=self.options, output_dir=str(folder)),
            finish,
            folder=folder,
            flags=self.settings.beam_options,
            in_processes=False,  # TensorFlow, which parses, does not survive a fork
        )
        self.conclude(result, folder)

    def conclude(self, result: Json, folder: Path) -> None:
        """Check the records that were written, and describe them, in the manifest last.

        Raises:
            DataError: see `write`.
        """
        settings, schema, tally = self.settings, self.options.schema, result["tally"]
        quarantine.check_share(result, folder, max_share=settings.max_quarantine, what="records")
        splits = splits_of_entries(result["shards"])
        for name, split in splits.items():
            if not split["num_examples"]:
                raise DataError(
                    f"the {name} split would be empty; use more records, or other ratios"
                )
        check_label(result["statistics"], {}, schema.label, quarantined=tally["quarantined"])
        names = [feature.name for feature in schema.features if feature.is_counted]
        statistics = statistics_of(
            result["statistics"], splits, workload=schema.workload, names=names
        )
        manifest = Manifest(
            workload=schema.workload,
            compression=self.options.compression,
            split_rule=self.split_rule,
            label=label_words(schema.label),
            sources=self.sources,
            settings=settings.changed(),
            rows={
                **{name: tally[name] for name in ("read", "written", "filtered")},
                "quarantined": sum(tally["quarantined"].values()),
            },
            quarantine=quarantine.manifest_entry(result),
            splits=splits,
        )
        finish_dataset(manifest, statistics, folder, settings=settings)


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> RecordJob:
    """Find the files, or fetch those of the source; plan the parts."""
    options.check_images(workload.name, allowed=ALLOWED)
    if options.files:
        paths = find_files([str(local_path(pattern)) for pattern in options.files])
    else:
        fetched = fetch(workload.reference, data_dir, trust_files=options.trust_files)
        paths = [str(path) for path in fetched.values()]
    schema = schema_of(workload, sample_of(list(map(Path, paths))))
    files = [(path, split_in_name(path)) for path in paths]
    given = {split for _, split in files}
    if "train" not in given or "" in given:
        files, given = [(path, "") for path in paths], set()
    num_shards = options.planned_shards(sum(Path(path).stat().st_size for path in paths))
    parts = plan_parts(files, num_shards)
    rule = split_rule("the record", options.ratios)
    if given:
        rule = f"by the names of the files ({', '.join(sorted(given))}); else {rule}"
    is_verified = not options.files and not options.trust_files
    return RecordJob(
        parts=parts,
        options=RecordOptions(
            schema=schema,
            ratios=options.ratios,
            num_shards=num_shards,
            compression=COMPRESSIONS[options.compression],
            given=tuple(sorted(given)),
            max_records=-(-options.max_examples // len(parts)),
        ),
        settings=options,
        split_rule=rule,
        sources=[
            source_entry(Path(path).name, sha256_of(Path(path)), is_verified=is_verified)
            for path in paths
        ],
    )


def split_in_name(path: str) -> str:
    """Return the split that a file's name begins with, or that its folder is named for; else ""."""
    file = Path(path)
    folder = file.parent.name.lower().removeprefix("split-")  # as TFX names it
    start = file.name.lower().replace("_", "-").replace(".", "-").split("-")[0]
    return GIVEN.get(start, GIVEN.get(folder, ""))


def plan_parts(files: list[tuple[str, str]], num_shards: int) -> list[RecordPart]:
    """Return parts of about equally many bytes; a file is read by one part only.

    With fewer files than shards, a part writes several shards.
    """
    sizes = [Path(path).stat().st_size + 1 for path, _ in files]
    total, done = sum(sizes), 0
    groups: list[list[tuple[str, str]]] = [[] for _ in range(num_shards)]
    for file, size in zip(files, sizes, strict=True):
        groups[min(done * num_shards // total, num_shards - 1)].append(file)
        done += size
    parts: list[RecordPart] = []
    for number, group in enumerate(groups):
        if group or not parts:
            parts.append(RecordPart([number], group))
        else:
            parts[-1].shards.append(number)
    return parts
