"""Preparation of images: of raw files, whose order gives the splits, and of class folders."""

import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError, Refuse, Write
from components.prepare_examples.images.folders import ClassFolders, read_folder
from components.prepare_examples.images.raw_files import row_bytes, splits_of
from components.prepare_examples.images.shards import (
    LISTING,
    FolderImages,
    Images,
    RawImages,
    bad_image,
    finish,
    write_shard,
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
from components.prepare_examples.raw_data.files import (
    find_files,
    find_folder,
    in_threads,
    sha256_of,
)
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.split_rule import rule_of, split_of
from components.prepare_examples.tfrecords.shards import (
    COMPRESSIONS,
    Rows,
    Shard,
    limit_splits,
    plan_shards,
)
from trainer import Json
from trainer.workloads.base import Workload
from trainer.workloads.declarations.split import FILES
from trainer.workloads.encoding.decoding import Decoding

ALLOWED = (
    *("files", "ratios", "split", "schema", "baseline", "drift_threshold", "block_on"),
    "max_quarantine",
)

logger = logging.getLogger(__name__)


def plan_files(workload: Workload, data_dir: Path, options: PrepareOptions) -> Write:
    """Fetch and check the raw files, whose order gives the splits; plan the shards."""
    options.check_images(workload.name)
    source = workload.source
    assert source is not None
    assert source.format is not None
    kind = source.format
    fetch(workload.reference, data_dir, trust_files=options.trust_files)
    splits = limit_splits(splits_of(kind, data_dir), options.max_examples)
    sizes = {name: rows.stop - rows.start for name, rows in splits.items()}
    shards = _plan_shards(splits, row_bytes(kind), options)
    rule = kind.split_rule or (
        f"by the given order: eval is the last 1 / {kind.eval_share} of the training files"
    )
    if options.max_examples:
        rule += f"{LIMITED}the first of each: {json.dumps(sizes)}"
    is_verified = not options.trust_files

    def write(folder: Path, refuse: Refuse) -> None:
        images = RawImages(kind, str(data_dir))
        result = _write_shards([(shard, 0) for shard in shards], images, folder, options)
        digests = [file.sha256 for file in source.files]  # of verified files they are known
        if not is_verified:
            digests = in_threads(lambda file: sha256_of(data_dir / file.name), source.files)
        sources = [
            source_entry(file.name, sha256, is_verified=is_verified)
            for file, sha256 in zip(source.files, digests, strict=True)
        ]
        _describe(workload, options, result, folder, refuse, split_rule=rule, sources=sources)

    return write


def plan_folder(workload: Workload, data_dir: Path, options: PrepareOptions) -> Write:
    """List the files, or fetch the source's ones; plan the shards."""
    options.check_images(workload.name, allowed=ALLOWED)
    root = find_root(workload, data_dir, options)
    folder = read_images(workload, root, options)
    if len(folder.classes) < 2:  # noqa: PLR2004
        raise DataError(
            f"{root} has only one class folder, {folder.classes[0]!r}; a classifier needs at least"
            " two"
        )
    assert isinstance(workload, Decoding)
    images = FolderImages(str(root), workload.plain, len(folder.classes))
    splits = {name: Rows(name, 0, len(files)) for name, files in folder.files.items()}
    for name, rows in splits.items():
        if not rows.stop:
            raise DataError(
                f"the {name} split would be empty: no image of {root} is in it; use more images, or"
                " other ratios"
            )
    for error in _absent(folder, {*range(len(folder.classes))} - _classes_of_train(folder)):
        raise error
    splits = limit_splits(splits, options.max_examples)
    shards = _plan_shards(splits, math.prod(images.decoding.size) * 3, options)
    kept = {name: folder.files[name][rows.start : rows.stop] for name, rows in splits.items()}
    folder = replace(folder, files=kept)
    rule = folder.rule.words
    if options.max_examples:
        rule += f"{LIMITED}{options.max_examples} images"

    def write(output: Path, refuse: Refuse) -> None:
        listing = output / LISTING
        offsets = write_listing(folder, listing)
        elements = [(shard, offsets[shard.split][shard.start]) for shard in shards]
        refused = [bad_image(path, reason) for path, reason in folder.refused]
        result = _write_shards(elements, images, output, options, refused=refused)
        listing.unlink()
        quarantine.check_share(
            result, output, max_share=options.max_quarantine, refuse=refuse, what="images"
        )
        num_bad = sum(result["tally"]["quarantined"].values())
        if num_bad:
            logger.warning("%d images were quarantined", num_bad)
        counts = dict(result["statistics"]["train"]["features"]["label"]["top_values"])
        for error in _absent(folder, _classes_of_train(folder) - counts.keys()):
            refuse(error)
        is_verified = not options.files and not options.trust_files
        _describe(
            *(workload, options, result, output, refuse),
            split_rule=rule,
            split=folder.rule.to_json(),
            labels=folder.classes,
            image=asdict(images.decoding),
            sources=[source_entry(root.name, result["digest"], is_verified=is_verified)],
            rows={**result["tally"], "quarantined": num_bad},
            quarantine=quarantine.manifest_entry(result),
        )

    return write


def _plan_shards(
    splits: Mapping[str, Rows], num_bytes: int, options: PrepareOptions
) -> list[Shard]:
    """Return the shards of splits, whose images have `num_bytes` each."""
    num_shards = {
        name: options.planned_shards((rows.stop - rows.start) * num_bytes, split=name)
        for name, rows in splits.items()
    }
    return plan_shards(splits, num_shards, compression=COMPRESSIONS[options.compression])


def _write_shards(
    elements: Sequence[tuple[Shard, int]],
    images: Images,
    folder: Path,
    options: PrepareOptions,
    *,
    refused: Sequence[Json] = (),
) -> Json:
    return run_pipeline(
        elements,
        partial(write_shard, images=images, output_dir=str(folder)),
        partial(finish, output_dir=str(folder), refused=refused),
        folder=folder,
        flags=options.beam_options,
    )


def _describe(
    workload: Workload,
    options: PrepareOptions,
    result: Json,
    folder: Path,
    refuse: Refuse,
    **facts: Any,
) -> None:
    manifest = Manifest(
        workload=workload.name,
        compression=COMPRESSIONS[options.compression],
        settings=options.changed(),
        splits=result["splits"],
        **facts,
    )
    finish_dataset(manifest, result["statistics"], folder, settings=options, refuse=refuse)


def read_images(workload: Workload, root: Path, options: PrepareOptions) -> ClassFolders:
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


def write_listing(images: ClassFolders, path: Path) -> dict[str, list[int]]:
    """Write path and class of each file, a line each; return the lines' offsets by split."""
    offsets: dict[str, list[int]] = {}
    with path.open("wb") as file:
        for split, files in images.files.items():
            offsets[split] = []
            for image in files:
                offsets[split].append(file.tell())
                file.write(json.dumps([image.path, image.label]).encode() + b"\n")
    return offsets


def _classes_of_train(folder: ClassFolders) -> set[int]:
    return {file.label for file in folder.files["train"]}


def _absent(folder: ClassFolders, classes: Iterable[int]) -> Iterator[DataError]:
    """Yield an error for each class that has no image in the train split."""
    for number in sorted(classes):
        yield DataError(
            f"the class {folder.classes[number]!r} has no image in the train split; add images to"
            " its folder, or remove it"
        )
