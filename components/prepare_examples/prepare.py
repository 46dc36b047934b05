"""The step that prepares a dataset: fetch, check, plan, write and publish."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from components.prepare_examples.beam.runner_flags import checked_flags
from components.prepare_examples.declarations import declared
from components.prepare_examples.errors import DataError, Refuse, Write, fail
from components.prepare_examples.existing_records import step as record_step
from components.prepare_examples.images import step as image_step
from components.prepare_examples.output import publish, quarantine
from components.prepare_examples.output.manifest import split_notes
from components.prepare_examples.raw_data.files import data_folder
from components.prepare_examples.raw_data.run_files import resolve, run_moment
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.statistics.report import FILE as REPORT
from components.prepare_examples.tables import step as table_step
from components.shared.text.json_object import read_object
from trainer import Json
from trainer.workloads import ImageFolder, Table, Workload

logger = logging.getLogger(__name__)

# What became of rows, by the manifest's names of their numbers.
OTHERS = {
    "outside": "in no split",
    "unlabelled": "without a label",
    "filtered": "filtered",
    "repeated_headers": "that repeat the header",
    "repeated_pictures": "that repeat another one",
}


def prepare(
    workload: str,
    *,
    output_dir: str | Path,
    data_dir: str | Path = "",
    options: PrepareOptions | None = None,
    refuse: Refuse = fail,
) -> Json:
    """Write a workload's raw data as a folder of TFRecords; return its manifest.

    The same input gives the same bytes. `output_dir` appears complete or not at all.

    Args:
        workload: a built-in name such as `mnist`, or any reference that `load_workload` takes.
        output_dir: the folder to create; an earlier dataset in it is replaced.
        data_dir: the cache of raw files, local or gs://; `.trainyard/cache/WORKLOAD` if empty.
        options: all other settings.
        refuse: called with each error about examples that are written and could be used; if it
            returns, they are published.

    Raises:
        DataError: the data or an option is wrong.
    """
    started = time.monotonic()
    output = publish.local_path(output_dir)
    publish.check_replaceable(output)
    checked = _checked(options, output)
    declaration = declared(workload)
    cache = publish.local_path(data_folder(workload, data_dir))
    write = plan_of(declaration)(declaration, cache, checked)
    with publish.published(output) as folder:
        write(folder, refuse)
    manifest = read_manifest(output)
    splits = [
        f"{name} {split['num_examples']:,} in {len(split['shards'])}"
        for name, split in manifest["splits"].items()
    ]
    logger.info(
        "%s: %s shards written to %s in %.1f s",
        *(manifest["workload"], ", ".join(splits), output, time.monotonic() - started),
    )
    for line in (notes(manifest) if "rows" in manifest else []) + manifest.get("drift", []):
        logger.info("%s", line)
    return manifest


def plan_of(workload: Workload) -> Callable[[Workload, Path, PrepareOptions], Write]:
    """Return the function that plans the kind of data that a workload declares."""
    if workload.source is not None and workload.source.format is not None:
        return image_step.plan_files
    if isinstance(workload, Table):
        return table_step.plan
    return image_step.plan_folder if isinstance(workload, ImageFolder) else record_step.plan


def explain_query(workload: str, options: PrepareOptions) -> str:
    """Return the query to BigQuery of a run, without running it: that costs money."""
    if options.source != "bigquery":
        raise DataError(
            "--dry-run prints the query to BigQuery, and source is 'files'; of files trainyard"
            " check says what a run would refuse"
        )
    resolved = resolve(options, run_moment(options))
    return table_step.explain_query(declared(workload), resolved)


def _checked(options: PrepareOptions | None, output: Path) -> PrepareOptions:
    """Return the options with the files of the run's date, and Beam's flags checked and completed.

    In a pipeline the files have been found before: by the time of the run, not of this step.
    """
    options = options or PrepareOptions()
    if options.baseline == PREVIOUS:
        raise DataError(
            "baseline is 'previous', which only a pipeline has; give the statistics.json of an"
            " earlier run"
        )
    flags = checked_flags(options.beam_options, output)
    return resolve(options, run_moment(options)).replace(beam_options=flags)


def read_manifest(examples_dir: str | Path) -> Json:
    """Return the manifest of a prepared dataset; InputError if it is damaged."""
    return read_object(Path(examples_dir, publish.MANIFEST), "splits.train")


def describe(manifest: Json) -> dict[str, str]:
    """Return the artifact's metadata, all texts: KFP turns numbers into floats."""
    counts = {
        f"num_{name}_examples": str(split["num_examples"])
        for name, split in manifest["splits"].items()
    }
    rule = manifest["split_rule"]
    facts = {"workload": manifest["workload"], "split_rule": rule, "report": REPORT, **counts}
    if "rows" in manifest:
        facts |= {"notes": "\n".join(notes(manifest))}
    if "drift" in manifest:
        facts |= {"drift": "\n".join(manifest["drift"])}
    return facts


def notes(manifest: Json) -> list[str]:
    """Return notes on a table: numbers of rows, and converted times."""
    rows = manifest["rows"]
    quarantined = f"{rows['quarantined']:,} quarantined"
    if columns := quarantine.by_column(manifest["quarantine"]["by_column"]):
        quarantined += f" ({columns})"
    others = [f"{rows[name]:,} {words}" for name, words in OTHERS.items() if rows.get(name)]
    counts = [f"{rows['written']:,} examples", quarantined, *others]
    lines = [f"{rows['read']:,} rows: {', '.join(counts)}"]
    if "split" in manifest:
        lines.append(f"split {manifest['split_rule']}")
    lines += split_notes(manifest)
    lines += manifest.get("unused", {}).get("notes", ())
    times = manifest.get("times", {})
    if zones := times.get("rows_converted_from"):
        named = ", ".join(f"{zone} ({count:,} rows)" for zone, count in sorted(zones.items()))
        lines.append(f"{times['column']}: wall time of {times['wall_time_of']}, from {named}")
    return lines
