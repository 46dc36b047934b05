"""The Beam pipeline of a table: its elements are parts, its result the merged results of all."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.statistics.states import from_state, merge_states
from components.prepare_examples.tables.plan import Part
from components.prepare_examples.tables.write import TableOptions, write_part
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer import Json


def write_table(
    parts: Sequence[Part],
    options: TableOptions,
    *,
    output_dir: Path,
    beam_options: Sequence[str] = (),
) -> Json:
    """Run the pipeline; return the entries of all files, the tally and the statistics.

    The pipeline's elements describe parts; rows do not pass through Beam.
    """
    return run_pipeline(
        [part.to_json() for part in parts],
        partial(write_part, options_json=options.to_json(), output_dir=str(output_dir)),
        finish,
        folder=output_dir,
        flags=beam_options,
    )


def merge_results(results: Iterable[Json]) -> Json:
    """Return the merged results of parts, in the same form, for any order and grouping."""
    merged = empty_result()
    for result in results:
        merged["shards"] = merged["shards"] + result["shards"]
        merged["quarantine"] = merged["quarantine"] + result["quarantine"]
        merged["tally"] = _sum_tallies(merged["tally"], result["tally"])
        merged["statistics"] = {
            split: merge_states(features, result["statistics"].get(split, {}))
            for split, features in merged["statistics"].items()
        }
    return merged


def empty_result() -> Json:
    """Return the result of no parts."""
    return {
        "shards": [],
        "quarantine": [],
        "tally": {
            **{"read": 0, "written": 0, "filtered": 0, "unlabelled": 0, "headers": 0},
            "repeated": 0,
            **{"quarantined": {}, "missing": {}, "zones": {}, "differing": {}, "labels": {}},
        },
        "statistics": {split: {} for split in SPLITS},
    }


def finish(results: Iterable[Json]) -> Json:
    """Return the summary of all parts' results, with the files in order."""
    merged = merge_results(sorted(results, key=_first_file))
    return {
        "shards": sorted(merged["shards"], key=lambda entry: str(entry["file"])),
        "quarantine": sorted(merged["quarantine"], key=lambda entry: str(entry["file"])),
        "tally": merged["tally"],
        "statistics": {
            split: {name: from_state(state).summary() for name, state in features.items()}
            for split, features in merged["statistics"].items()
        },
    }


def _first_file(result: Json) -> str:
    return min((str(entry["file"]) for entry in result["shards"]), default="")


def _sum_tallies(one: Json, other: Json) -> Json:
    """Return the sums of two tallies, by name and key; records do not count all that rows do."""
    return {
        name: {key: value.get(key, 0) + other[name].get(key, 0) for key in {**value, **other[name]}}
        if isinstance(value, dict)
        else value + other.get(name, 0)
        for name, value in one.items()
    }
