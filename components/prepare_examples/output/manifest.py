"""The manifest of a dataset and its statistics, the same for every kind of raw data."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.prepare_examples.output.publish import MANIFEST, local_path
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.statistics.describe import describe_examples
from components.prepare_examples.tfrecords.shards import ENTRY_FIELDS, SPLITS
from trainer import Json

LIMITED = "; limited to "  # in a split rule: what follows it moves no row


def splits_of_entries(entries: Sequence[Json]) -> Json:
    """Return the manifest's `splits` from the entries of files."""
    splits: Json = {split: {"num_examples": 0, "shards": []} for split in SPLITS}
    for entry in entries:
        split = splits[entry["split"]]
        split["num_examples"] += entry["num_examples"]
        split["shards"].append({key: entry[key] for key in ENTRY_FIELDS})
    return splits


def split_of(manifest: Json) -> Json:
    """Return the rule that decides the split of a row, with the columns that it depends on."""
    rule = str(manifest.get("split_rule", "")).partition(LIMITED)[0]
    return {"rule": rule, "columns": manifest.get("split_columns", [])}


def statistics_of(
    features: Mapping[str, Json], splits: Json, *, workload: str, names: Iterable[str]
) -> Json:
    """Return the content of statistics.json.

    Args:
        features: the statistics of each split's features, by split and name.
        splits: the manifest's.
        workload: name of the workload.
        names: the features to keep, in order.
    """
    names = tuple(names)
    return {
        "workload": workload,
        "splits": {
            split: {
                "num_examples": splits[split]["num_examples"],
                "features": {name: found[name] for name in names},
            }
            for split, found in features.items()
        },
    }


def finish_dataset(
    manifest: Json,
    statistics: Json,
    folder: Path,
    *,
    settings: PrepareOptions,
    **described: Any,
) -> None:
    """Check the statistics and write all files that describe the examples, the manifest last.

    `described` are further arguments of `describe_examples`.

    Raises:
        DataError: there are anomalies that block.
    """
    manifest |= describe_examples(
        statistics,
        folder,
        schema_path=local_path(settings.schema) if settings.schema else None,
        baseline_path=local_path(settings.baseline) if settings.baseline else None,
        drift_threshold=settings.drift_threshold,
        block_on=settings.block_on,
        **described,
    )
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
