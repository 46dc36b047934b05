"""Splits and shards: their ratios, numbers, file names and rows.

Every command that reads options imports this module, so it imports neither numpy nor pyarrow.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from components.prepare_examples.errors import DataError
from trainer import Json

SPLITS = ("train", "eval", "test")
DEFAULT_RATIOS = {"train": 0.8, "eval": 0.1, "test": 0.1}
DEFAULT_NUM_SHARDS = {"train": 4, "eval": 1, "test": 2}
COMPRESSIONS = {"gzip": "GZIP", "none": ""}
TARGET_BYTES = 128_000_000  # of raw data in a file
SUFFIXES = {"GZIP": ".tfrecord.gz", "": ".tfrecord"}
ENTRY_FIELDS = ("file", "num_examples", "sha256", "crc32c", "keys")  # of a shard in the manifest
MOST_KEYS = 20_000  # examples of a dataset whose manifest has the hash of each one


def check_ratios(ratios: Mapping[str, float]) -> dict[str, float]:
    """Return the ratios in the order of SPLITS, scaled to a sum of one.

    Raises:
        DataError: a split is unknown, missing or would be empty.
    """
    if set(ratios) != set(SPLITS):
        raise DataError(f"ratios are given for {sorted(ratios)}; give one for each of {SPLITS}")
    for name, ratio in ratios.items():
        if not ratio > 0 or ratio == float("inf"):
            raise DataError(
                f"the {name} split would be empty: its ratio is {ratio}; it must be positive"
            )
    total = sum(ratios.values())
    return {name: ratios[name] / total for name in SPLITS}


def plan_num_shards(num_bytes: int, *, split: str = "train") -> int:
    """Return the number of files, of about TARGET_BYTES, for a split; for train it is even.

    Two replicas, each with two readers, then read equally many files.
    """
    wanted = max(DEFAULT_NUM_SHARDS[split], math.ceil(num_bytes / TARGET_BYTES))
    return wanted + wanted % 2 * (split == "train")


class Rows(NamedTuple):
    """Rows `start` to `stop` of a part of the raw data (of images, `train` or `test`)."""

    part: str
    start: int
    stop: int


class Shard(NamedTuple):
    """One output file: its name, its split and its rows of a part of the raw data.

    Flat, of plain values: shards pass through Beam, the data itself does not.
    """

    file: str
    split: str
    part: str
    start: int
    stop: int


def limit_splits(splits: Mapping[str, Rows], max_examples: int) -> dict[str, Rows]:
    """Return the first rows of each split, in proportion, `max_examples` in all (0: all rows).

    Raises:
        DataError: a split is empty, or the limit is less than one row per split.
    """
    sizes = {name: rows.stop - rows.start for name, rows in splits.items()}
    for name, size in sizes.items():
        if size < 1:
            raise DataError(f"the {name} split would be empty: the raw files hold too few examples")
    if max_examples == 0 or max_examples >= sum(sizes.values()):
        return dict(splits)
    if max_examples < len(splits):
        raise DataError(
            f"max_examples is {max_examples}; allowed are 0 for all, or at least {len(splits)}, "
            "one for each split"
        )
    total = sum(sizes.values())
    kept = {name: max(1, size * max_examples // total) for name, size in sizes.items()}
    kept["train"] = max_examples - sum(kept[name] for name in kept if name != "train")
    return {name: rows._replace(stop=rows.start + kept[name]) for name, rows in splits.items()}


def limit_keys(entries: Iterable[Json]) -> list[Json]:
    """Return the entries of files, without the keys of their examples if these are many."""
    entries = list(entries)
    if sum(entry["num_examples"] for entry in entries) <= MOST_KEYS:
        return entries
    return [{name: entry[name] for name in entry if name != "keys"} for entry in entries]


def shard_file(split: str, index: int, count: int, compression: str = "GZIP") -> str:
    """Return the name of a split's file."""
    return f"{split}-{index:05d}-of-{count:05d}{SUFFIXES[compression]}"


def plan_shards(
    splits: Mapping[str, Rows], num_shards: Mapping[str, int], *, compression: str = "GZIP"
) -> list[Shard]:
    """Return shards of each split, of equal size or one example more; none is empty."""
    shards = []
    for split, (part, start, stop) in splits.items():
        count = min(num_shards.get(split, DEFAULT_NUM_SHARDS[split]), stop - start)
        cuts = [start + (stop - start) * index // count for index in range(count + 1)]
        for index in range(count):
            file = shard_file(split, index, count, compression)
            shards.append(Shard(file, split, part, cuts[index], cuts[index + 1]))
    return shards
