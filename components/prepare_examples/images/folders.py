"""Class folders of images: which files there are, their classes and their splits.

`FOLDER/CLASS/…/*.png`, or `FOLDER/train/CLASS/…`, with `eval` (or `val`) and `test` beside it. The
split of a file without a folder for it follows from a hash of its path in FOLDER, or of the part of
it that names its group.
"""

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.files import IGNORED
from components.prepare_examples.split_rule import SplitRule
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer.errors import did_you_mean
from trainer.workloads import Binary, Classes, Label
from trainer.workloads.declarations.split import FILES, HASH, Split
from trainer.workloads.encoding.image_files import SUFFIXES

logger = logging.getLogger(__name__)

GIVEN = {"train": "train", "eval": "eval", "val": "eval", "valid": "eval", "validation": "eval"}
GIVEN |= {"test": "test", "training": "train", "testing": "test"}
HASH_BYTES = 8


@dataclass(frozen=True)
class ImageFile:
    """A file in a class folder; the order is by place, a hash, which mixes the classes."""

    place: int
    path: str
    label: int


@dataclass(frozen=True)
class ClassFolders:
    """The content of a folder: class names, the files of each split, and the refused ones."""

    root: Path
    classes: tuple[str, ...]
    files: Mapping[str, tuple[ImageFile, ...]]
    refused: tuple[tuple[str, str], ...]
    """Path and reason."""
    rule: SplitRule


def read_folder(
    root: Path, *, rule: SplitRule, label: Label | None = None, group_by: str = ""
) -> ClassFolders:
    """Return the content of a folder; folders around the class folders may name the splits.

    Without declared classes these are the names of the folders. Images with the same match of the
    regular expression `group_by` are in one split.

    Raises:
        DataError: there are no class folders, one is empty, or is not a declared class; or no file
            has a group.
    """
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; give a folder with a folder of images per class")
    split_folders = _given_splits(root, rule.split)
    refused: list[tuple[str, str]] = []
    paths: dict[Path, list[str]] = {}  # by class folder
    for _, folder in split_folders or [("", root)]:
        for name in _class_folders(root, folder, refused):
            class_folder = folder / name
            paths[class_folder] = list(_images(root, class_folder, refused))
            if not paths[class_folder]:
                raise DataError(
                    f"the class folder {class_folder} has no images"
                    f"{_reason(root, class_folder, refused)}; add images to it, or remove it"
                )
    if not paths:
        raise DataError(
            f"{root} has no class folders; put the images of each class into a folder with its name"
        )
    names = sorted({folder.name for folder in paths})
    ordered, numbers = number_classes(root, names, label)
    files: dict[str, list[ImageFile]] = {split: [] for split in SPLITS}
    if split_folders:
        folders = {str(folder): split for split, folder in split_folders}
        rule = replace(rule, named=tuple(sorted({*folders.values()})), files=folders)
        if rule.split.by == HASH:
            given = "by the folders train, eval and test; where one is missing,"
            rule = replace(rule, given=given)
    num_single = 0
    for folder, own in paths.items():
        places = hashes = _hashes(own)
        if group_by:
            groups = [_group(path, group_by) for path in own]
            hashes = _hashes([group or path for group, path in zip(groups, own, strict=True)])
            num_single += groups.count("")
        chosen = rule.numbers(len(own), file=str(folder.parent), hashes=hashes).tolist()
        for number, place, path in zip(chosen, places.tolist(), own, strict=True):
            files[SPLITS[number]].append(ImageFile(place, path, numbers[folder.name]))
    num_images = sum(map(len, paths.values()))
    if num_single == num_images:
        raise DataError(f"group_by {group_by!r} matches no path of an image in {root}")
    if num_single:
        logger.warning(
            "%d of %d images do not match group_by %r: each is a group of its own",
            *(num_single, num_images, group_by),
        )
    return ClassFolders(
        root=root,
        classes=ordered,
        files={
            split: tuple(sorted(some, key=attrgetter("place"))) for split, some in files.items()
        },
        refused=tuple(sorted(refused)),
        rule=rule,
    )


def number_classes(
    root: Path, folders: Sequence[str], label: Label | None
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the names of the classes, and the number of each folder's class.

    Raises:
        DataError: a folder is not a declared class.
    """
    if isinstance(label, Binary):
        positive = str(label.positive)
        if positive not in folders:
            raise DataError(
                f"{root} has no class folder {positive!r}, the positive class;"
                f"{did_you_mean(positive, folders)} it has {', '.join(folders)}"
            )
        return label.names_of_classes(), {name: int(name == positive) for name in folders}
    values = [str(value) for value in label.values] if isinstance(label, Classes) else []
    for name in folders if values else ():
        if name not in values:
            raise DataError(
                f"the class folder {root / name} is not a class of the workload;"
                f"{did_you_mean(name, values)} its classes are {', '.join(values)}"
            )
    ordered = values or list(folders)
    names = label.names_of_classes() if label and values else tuple(ordered)
    return names, {name: number for number, name in enumerate(ordered)}


def _group(path: str, group_by: str) -> str:
    """Return the group of an image: the first group of the match, or all of it; "" without one."""
    match = re.search(group_by, path)
    return str(match[1 if match.re.groups else 0] or "") if match else ""


def _hashes(paths: Sequence[str]) -> NDArray[np.uint64]:
    encoded = (path.encode("utf-8", "surrogateescape") for path in paths)
    digests = (hashlib.blake2b(path, digest_size=HASH_BYTES).digest() for path in encoded)
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def _given_splits(root: Path, split: Split) -> list[tuple[str, Path]]:
    """Return the folders of splits: the declared ones, or `train` and another one but no others.

    Raises:
        DataError: a declared one does not exist.
    """
    entries = [path for path in sorted(root.iterdir()) if not path.name.startswith(".")]
    folders = [path for path in entries if path.is_dir()]
    if split.by == FILES:
        parts = [(name, path) for name, part in split.parts.items() for path in part]
        named = [(name, root / local_path(path)) for name, path in parts]
        for name, folder in named:
            if not folder.is_dir():
                raise DataError(f"split.{name} is {folder}, which is not a folder of {root}")
        known = {folder for _, folder in named}
        undeclared = [] if split.train else [folder for folder in folders if folder not in known]
        return [*named, *(("train", folder) for folder in undeclared)]
    splits = [(GIVEN.get(path.name.lower(), ""), path) for path in folders]
    names = {name for name, _ in splits}
    is_given = "train" in names and "" not in names and len(folders) > 1
    return splits if is_given else []


def _class_folders(root: Path, folder: Path, refused: list[tuple[str, str]]) -> list[str]:
    names = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name.lower() in IGNORED:
            continue
        if _leaves(root, path):
            refused.append((_relative(root, path), "is a link out of the folder"))
        elif path.is_dir():
            names.append(path.name)
        else:
            refused.append((_relative(root, path), "is not in a class folder"))
    return names


def _images(root: Path, folder: Path, refused: list[tuple[str, str]]) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        relative_parent = _relative(root, Path(parent))
        for name in folders:
            if os.path.islink(os.path.join(parent, name)):
                refused.append((f"{relative_parent}/{name}", "is a link to a folder"))
        for name in sorted(names):  # without Paths, which take four times as long
            path, relative = os.path.join(parent, name), f"{relative_parent}/{name}"
            if name.startswith(".") or name.lower() in IGNORED:
                continue
            if os.path.islink(path) and _leaves(root, Path(path)):
                refused.append((relative, "is a link out of the folder, or to no file"))
            elif os.path.splitext(name)[1].lower() not in SUFFIXES:
                kinds = ", ".join(SUFFIXES)
                reason = f"is not an image that can be read; convert it to one of {kinds}"
                refused.append((relative, reason))
            else:
                yield relative


def _leaves(root: Path, path: Path) -> bool:
    """Return whether a link leads out of the root, or to no file."""
    if not path.is_symlink():
        return False
    target = path.resolve()
    return not target.is_relative_to(root.resolve()) or not target.exists()


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _reason(root: Path, folder: Path, refused: list[tuple[str, str]]) -> str:
    prefix = f"{_relative(root, folder)}/"
    own = [(path, reason) for path, reason in refused if path.startswith(prefix)]
    return f" ({own[0][0]} {own[0][1]})" if own else ""
