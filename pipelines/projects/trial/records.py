"""Trials of preparing TFRecords, all of a run or the first of many, and class folders of images."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import sample_of
from components.prepare_examples.existing_records.record_schema import schema_of
from components.prepare_examples.existing_records.step import plan
from components.prepare_examples.existing_records.write import (
    write_part,
)
from components.prepare_examples.images.folder_step import options_of, read_images, write_listing
from components.prepare_examples.images.folders import ImageFile, ImageFolder
from components.prepare_examples.images.shards import LISTING, finish_folder, write_folder_shard
from components.prepare_examples.parts import finish
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.shards import Shard, shard_file
from pipelines.projects.trial.places import Places
from pipelines.projects.trial.sample import Sample, bad_rows, problem_of, without_service
from trainer.workloads import Workload

MAX_FILES = 5
MAX_RECORDS = 2_000
MAX_BYTES = 5_000_000  # of files that are read whole
MAX_DECIDING_BYTES = 200_000_000  # of files that are read whole if some records are refused
MAX_IMAGES = 200
NUM_SHOWN = 5


def sample_records(
    workload: Workload,
    paths: Sequence[str],
    options: PrepareOptions,
    folder: Path,
    places: Places,
    *,
    max_files: int = MAX_FILES,
    max_bytes: int = MAX_BYTES,
) -> Sample:
    """Write the first records of some files as examples; all if those would be refused.

    Raises:
        DataError: a file is damaged, or the records lack the label.
    """
    first = sample_of(list(map(Path, paths)))
    schema = schema_of(workload, first)
    absent = [
        feature.name
        for feature in schema.features
        if feature.is_required and feature.name not in first
    ]
    if absent:
        has = ", ".join(sorted(first))
        problems = [
            f"{places.of_text(name)}the records of {paths[0]} have no feature {name!r}; they have"
            f" {has}"
            for name in absent
        ]
        return Sample(problems=problems)
    chosen = paths[:max_files]
    num_bytes = sum(Path(path).stat().st_size for path in paths)
    is_whole = len(paths) == len(chosen) and num_bytes <= max_bytes
    most = options.max_examples if is_whole else MAX_RECORDS
    sampled = replace(without_service(options), files=tuple(chosen), max_examples=most)
    if not is_whole:  # some records need not fill the windows, nor have each value
        sampled = replace(sampled, split={"by": "hash"})
    job = plan(workload, Path(), sampled)
    written = (write_part(part, options=job.options, output_dir=str(folder)) for part in job.parts)
    result = finish(written)
    if not is_whole:
        result["statistics"] = {"train": result["statistics"]["train"]}
    outcome = job.outcome(result, folder)
    train = outcome.splits["train"]
    position = places.of_text(schema.label.name)
    problems = []
    if outcome.is_above_share:
        problems = bad_rows(folder, result["tally"], places, what="record")
    elif is_whole:
        problems = problem_of(lambda: job.conclude(outcome), position)
    elif train["num_examples"]:
        problems = problem_of(outcome.check_label, position)
    if problems and not is_whole and num_bytes <= MAX_DECIDING_BYTES:
        sizes = {"max_files": len(paths), "max_bytes": num_bytes}
        return sample_records(workload, paths, options, folder, places, **sizes)
    return Sample(
        entries=train["shards"],
        statistics=result["statistics"]["train"],
        names=schema.names,
        detail=f"{'all ' if is_whole else ''}{outcome.rows['read']:,} records of {len(chosen)} of"
        f" {len(paths)} files read, {outcome.num_bad:,} bad",
        problems=problems,
        splits=outcome.splits if is_whole else {},
    )


def sample_images(
    workload: Workload,
    root: Path,
    options: PrepareOptions,
    folder: Path,
    *,
    max_images: int = MAX_IMAGES,
) -> Sample:
    """Write some images of each class, from the class folders in `root`, as examples.

    Of those with too many bad ones, all images decide.

    Raises:
        DataError: there is no class folder, one is empty, or there is only one.
    """
    images = read_images(workload, root, options)
    if len(images.classes) < 2:  # noqa: PLR2004
        raise DataError(
            f"{images.root} has only one class folder, {images.classes[0]!r}; add one for each"
            " class"
        )
    chosen = _some_of_each(images, max_images)
    write_listing(replace(images, files={"train": tuple(chosen)}), folder / LISTING)
    settings = options_of(workload, images)
    shard = Shard(shard_file("train", 0, 1, ""), "train", "train", 0, len(chosen))
    result = write_folder_shard((shard, 0), options=settings, output_dir=str(folder))
    merged = finish_folder([result], output_dir=str(folder), refused=[])
    bad = [(entry["file"], entry["reason"]) for entry in result["bad"]]
    num_files = images.num_files
    problems = _problems(images, bad, len(chosen), options.max_quarantine)
    if bad and problems and len(chosen) < sum(map(len, images.files.values())):
        return sample_images(workload, root, options, folder, max_images=num_files)
    return Sample(
        entries=merged["splits"]["train"]["shards"],
        statistics=merged["statistics"]["train"]["features"],
        names=("label",),
        labels=images.classes,
        detail=f"{len(chosen):,} of {num_files:,} images in {len(images.classes)} classes read,"
        f" {len(bad) + len(images.refused):,} bad",
        problems=problems,
        absent=_absent(images),
    )


def _absent(images: ImageFolder) -> dict[str, list[str]]:
    present = {split: {file.label for file in files} for split, files in images.files.items()}
    absent = {
        split: [name for number, name in enumerate(images.classes) if number not in numbers]
        for split, numbers in present.items()
    }
    return {split: names for split, names in absent.items() if names}


def _some_of_each(images: ImageFolder, max_images: int) -> list[ImageFile]:
    """Return up to `max_images` images, equally many of each class, ordered by hash."""
    files = sorted(file for some in images.files.values() for file in some)
    by_class = [
        [file for file in files if file.label == number] for number in range(len(images.classes))
    ]
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*by_class))
    return list(itertools.islice((file for file in rounds if file), max_images))


def _problems(
    images: ImageFolder, bad: Sequence[tuple[str, str]], num_read: int, max_share: float
) -> list[str]:
    """Return the images that preparing would refuse, if they are too many."""
    refused = [*bad, *images.refused]
    if len(bad) <= max_share * num_read and len(images.refused) <= max_share * images.num_files:
        return []
    problems = [f"{images.root / path}: {reason}" for path, reason in refused[:NUM_SHOWN]]
    more = len(refused) - NUM_SHOWN
    remedy = "remove or replace them, or raise max_quarantine"
    return [*problems, *([f"{images.root}: {more:,} more images are bad; {remedy}"] * (more > 0))]
