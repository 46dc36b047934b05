"""Preparation of class folders of images."""

import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError, Refuse, fail
from components.prepare_examples.images.folders import ImageFolder, read_folder
from components.prepare_examples.images.shards import (
    LISTING,
    FolderOptions,
    finish_folder,
    write_folder_shard,
)
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import (
    LIMITED,
    Manifest,
    finish_dataset,
    source_entry,
)
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.archives import is_archive, unpack
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import find_files, find_folder
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.split_rule import rule_of, split_of
from components.prepare_examples.tfrecords.shards import (
    COMPRESSIONS,
    Rows,
    Shard,
    limit_splits,
    plan_shards,
)
from trainer.workloads.base import Workload
from trainer.workloads.declarations.decoding import Decoding
from trainer.workloads.declarations.split import FILES

ALLOWED = (
    *("files", "ratios", "split", "schema", "baseline", "drift_threshold", "block_on"),
    "max_quarantine",
)


logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FolderJob:
    """The files, planned shards, and facts for the manifest."""

    workload: str
    folder: ImageFolder
    shards: list[Shard]
    options: FolderOptions
    split_rule: str
    settings: PrepareOptions

    def write(self, folder: Path, refuse: Refuse = fail) -> None:
        """Write the shards, statistics and then the manifest; refuse what a run cannot use."""
        settings, options = self.settings, self.options
        offsets = write_listing(self.folder, folder / LISTING)
        result = run_pipeline(
            [(shard, offsets[shard.split][shard.start]) for shard in self.shards],
            partial(write_folder_shard, options=options, output_dir=str(folder)),
            partial(finish_folder, output_dir=str(folder), refused=list(self.folder.refused)),
            folder=folder,
            flags=settings.beam_options,
        )
        (folder / LISTING).unlink()
        quarantine.check_share(
            result, folder, max_share=settings.max_quarantine, refuse=refuse, what="images"
        )
        num_bad = sum(result["tally"]["quarantined"].values())
        if num_bad:
            logger.warning("%d images were quarantined", num_bad)
        counts = dict(result["statistics"]["train"]["features"]["label"]["top_values"])
        for error in _absent(self.folder, _classes_of_train(self.folder) - counts.keys()):
            refuse(error)
        is_verified = not settings.files and not settings.trust_files
        manifest = Manifest(
            workload=self.workload,
            compression=COMPRESSIONS[settings.compression],
            split_rule=self.split_rule,
            split=self.folder.rule.to_json(),
            labels=self.folder.classes,
            image=asdict(options.decoding),
            sources=[
                source_entry(self.folder.root.name, result["digest"], is_verified=is_verified)
            ],
            settings=settings.changed(),
            rows={**result["tally"], "quarantined": num_bad},
            quarantine=quarantine.manifest_entry(result),
            splits=result["splits"],
        )
        statistics = {"workload": self.workload, "splits": result["statistics"]}
        finish_dataset(manifest, statistics, folder, settings=settings, refuse=refuse)


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> FolderJob:
    """List the files, or fetch the source's ones; plan the shards."""
    options.check_images(workload.name, allowed=ALLOWED)
    root = find_root(workload, data_dir, options)
    folder = read_images(workload, root, options)
    if len(folder.classes) < 2:  # noqa: PLR2004
        raise DataError(
            f"{root} has only one class folder, {folder.classes[0]!r}; a classifier needs at least"
            " two"
        )
    shard_options = options_of(workload, folder)
    height, width = shard_options.decoding.size
    splits = {name: Rows(name, 0, len(files)) for name, files in folder.files.items()}
    for name, rows in splits.items():
        if not rows.stop:
            raise DataError(
                f"the {name} split would be empty: none of the {folder.num_files:,} files of"
                f" {root} is in it; use more images, or other ratios"
            )
    for error in _absent(folder, {*range(len(folder.classes))} - _classes_of_train(folder)):
        raise error
    splits = limit_splits(splits, options.max_examples)
    num_shards = {
        name: options.planned_shards((rows.stop - rows.start) * height * width * 3, split=name)
        for name, rows in splits.items()
    }
    kept = {name: folder.files[name][rows.start : rows.stop] for name, rows in splits.items()}
    rule = folder.rule.words
    if options.max_examples:
        rule += f"{LIMITED}{options.max_examples} images"
    return FolderJob(
        workload=workload.name,
        folder=replace(folder, files=kept),
        shards=plan_shards(splits, num_shards, compression=COMPRESSIONS[options.compression]),
        options=shard_options,
        split_rule=rule,
        settings=options,
    )


def read_images(workload: Workload, root: Path, options: PrepareOptions) -> ImageFolder:
    """Return the content of a run's folder.

    Raises:
        DataError: the rule of the splits is by a column; or see `read_folder`.
    """
    group_by = getattr(workload, "group_by", "")
    hashed = f"what {group_by!r} matches in the file's path" if group_by else "the file's path"
    rule = rule_of(split_of(workload, options), options, hashed=hashed)
    if rule.column:
        raise DataError(
            f"split is by {rule.column}, but images in class folders have no columns; give the"
            " folders of each split, as files: {train: …, test: …}"
        )
    return read_folder(root, rule=rule, label=workload.label, group_by=group_by)


def find_root(workload: Workload, data_dir: Path, options: PrepareOptions) -> Path:
    """Return the folder of the class folders: of the options, or else of the fetched source.

    Of the folders of several splits, it is the one around them. An archive is unpacked into
    `data_dir`.

    Raises:
        DataError: there is no such folder or archive, or several.
    """
    if options.files:
        patterns = [str(local_path(pattern)) for pattern in options.files]
        if split_of(workload, options).by == FILES and len(patterns) > 1:
            return Path(os.path.commonpath([find_folder([pattern]) for pattern in patterns]))
        if not all(map(is_archive, patterns)):
            return find_folder(patterns)
        paths = list(map(Path, find_files(patterns)))
        if len(paths) > 1:
            raise DataError(
                f"{', '.join(patterns)} matches {len(paths)} archives; give one, or a folder"
            )
        return unpack(paths[0], data_dir)
    fetched = fetch(workload.reference, data_dir, trust_files=options.trust_files)
    paths = list(fetched.values())
    return unpack(paths[0], data_dir) if len(paths) == 1 and is_archive(paths[0]) else data_dir


def options_of(workload: Workload, folder: ImageFolder) -> FolderOptions:
    """Return what every shard of a workload's images needs."""
    assert isinstance(workload, Decoding)
    return FolderOptions(
        root=str(folder.root), decoding=workload.plain, num_classes=len(folder.classes)
    )


def write_listing(images: ImageFolder, path: Path) -> dict[str, list[int]]:
    """Write path and class of each file, a line each; return the lines' offsets by split."""
    offsets: dict[str, list[int]] = {}
    with path.open("wb") as file:
        for split, files in images.files.items():
            offsets[split] = []
            for image in files:
                offsets[split].append(file.tell())
                file.write(json.dumps([image.path, image.label]).encode() + b"\n")
    return offsets


def _classes_of_train(folder: ImageFolder) -> set[int]:
    return {file.label for file in folder.files["train"]}


def _absent(folder: ImageFolder, classes: Iterable[int]) -> Iterator[DataError]:
    """Yield an error for each class that has no image in the train split."""
    for number in sorted(classes):
        yield DataError(
            f"the class {folder.classes[number]!r} has no image in the train split; add images to"
            " its folder, or remove it"
        )
