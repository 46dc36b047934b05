"""The command line's flags and help."""

import argparse

from components.prepare_examples.options import SOURCES as TABLE_SOURCES
from components.prepare_examples.raw_data.sources import CACHE_DIR, SOURCES
from components.prepare_examples.statistics.drift import THRESHOLDS
from components.prepare_examples.tables.bigquery import TABLE
from components.prepare_examples.tfrecords.shards import COMPRESSIONS, DEFAULT_NUM_SHARDS
from trainer.workloads.taxi_table import TIME_ZONE

DESCRIPTION = f"""\
Turn a workload's raw data into sharded TFRecords of tf.train.Example, with Apache Beam.

The raw files are fetched once into a cache folder, and verified by SHA-256 whenever they are used;
after that no network is needed. The output folder appears only when it is complete: shards named
SPLIT-SSSSS-of-NNNNN.tfrecord.gz, and manifest.json, which says how many examples each holds, where
they come from and their checksums. The same input always gives the same bytes.

A schema.pbtxt and statistics describe the examples, in tensorflow-metadata's form and in JSON.

A table (taxi) is read from your own files too, CSV or Parquet. Rows with impossible values are not
dropped: they are set aside in quarantine-*.jsonl, each with the reason, and the manifest accounts
for every row. statistics.json describes each feature of each split, report.html shows them, and
anomalies.json says what a schema or an earlier run would not lead one to expect. Rows that repeat
the unique_key of another one, if the table has that column, are kept, counted in the manifest and a
warning there.

workloads: {", ".join(sorted(SOURCES))}"""

EXAMPLES = """\
examples:
  # all of MNIST, from the network or the cache
  python -m components.prepare_examples --workload mnist --output-dir /tmp/mnist

  # a taste: 640 images in the proportions of the whole
  python -m components.prepare_examples --workload mnist --output-dir /tmp/taste --max-examples 640

  # files of your own in MNIST's format, such as Fashion-MNIST, taken as they are
  python -m components.prepare_examples --workload mnist --output-dir /tmp/fashion \\
      --data-dir ~/fashion --trust-files

  # taxi trips exported from the city's portal or BigQuery, on both cores
  python -m components.prepare_examples --workload taxi --output-dir /tmp/taxi \\
      --files 'trips/*.csv.gz' --ratios train=0.9,eval=0.05,test=0.05 \\
      --direct-workers 2

  # what would be asked of BigQuery for a million trips of one year
  python -m components.prepare_examples --workload taxi --output-dir /tmp/taxi --dry-run \\
      --source bigquery --project my-project --limit 1000000 --dates 2016-01-01,2016-12-31"""


SHARDS_HELP = {
    "train": "planned, see below; of a table, this number is for every split",
    "eval": "1, or more if it is large",
    "test": "2, or more if it is large",
}


def parser() -> argparse.ArgumentParser:
    """All flags, in groups."""
    found = argparse.ArgumentParser(
        prog="python -m components.prepare_examples",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--workload", required=True, metavar="NAME", help="which data to prepare")
    found.add_argument(
        "--output-dir",
        required=True,
        metavar="DIR",
        help="the folder to make; replaced if it is one",
    )
    found.add_argument(
        "--data-dir",
        default="",
        metavar="DIR",
        help=f"cache of the raw files (default: {CACHE_DIR}/WORKLOAD)",
    )
    found.add_argument(
        "--max-examples",
        type=int,
        default=0,
        metavar="N",
        help="only the first examples of each split (or rows), N in all (default: 0, all)",
    )
    found.add_argument(
        "--trust-files",
        action="store_true",
        help="use the files in --data-dir without verifying them, and fetch none",
    )
    found.add_argument(
        "--compression",
        default="gzip",
        metavar="KIND",
        help=f"of the output: {' or '.join(COMPRESSIONS)} (default: gzip)",
    )
    for split in DEFAULT_NUM_SHARDS:
        found.add_argument(
            f"--{split}-shards",
            type=int,
            metavar="N",
            help=f"number of {split} files (default: {SHARDS_HELP[split]})",
        )
    _add_plan_flags(found)
    _add_check_flags(found)
    _add_table_flags(found)
    _add_bigquery_flags(found)
    found.add_argument("beam_options", nargs="*", help="Beam's own flags, after --")
    return found


def _add_plan_flags(parser: argparse.ArgumentParser) -> None:
    plan = parser.add_argument_group("plan and runner")
    plan.add_argument(
        "--dry-run", action="store_true", help="print what would be written, and write nothing"
    )
    counts = {
        "num-workers": (2, "replicas that will train; train has never fewer files"),
        "parallelism": (2, "files that a replica reads at once"),
        "target-mb": (128, "megabytes of raw data to a file"),
        "direct-workers": (1, "of the DirectRunner: threads or processes"),
    }
    for name, (default, text) in counts.items():
        shown = f"{text} (default: {default})"
        plan.add_argument(f"--{name}", type=int, default=default, metavar="N", help=shown)
    plan.add_argument(
        "--direct-mode",
        default="multi_threading",
        choices=("multi_threading", "multi_processing"),
        help="how the DirectRunner spreads over several workers (default: %(default)s)",
    )
    plan.add_argument(
        "--runner",
        default="",
        metavar="NAME",
        help="DirectRunner (default), DataflowRunner, FlinkRunner, SparkRunner or PortableRunner, "
        "with its own flags after --; its workers must see the raw files and the output folder "
        "under the same paths. Dataflow needs --project, --region and --sdk_container_image, and "
        "stages in the bucket of the output. Not yet tried but for the first and the last",
    )


def _add_check_flags(parser: argparse.ArgumentParser) -> None:
    checks = parser.add_argument_group("checks of tables (taxi)")
    checks.add_argument(
        "--schema",
        default="",
        metavar="FILE",
        help="a schema.pbtxt to hold the examples against (default: infer one)",
    )
    checks.add_argument(
        "--baseline",
        default="",
        metavar="PATH",
        help="statistics.json or the examples folder of an earlier run, to measure drift from",
    )
    checks.add_argument(
        "--drift-thresholds",
        default=",".join(f"{name}={threshold}" for name, threshold in THRESHOLDS.items()),
        metavar="DISTANCES",
        help="distances above which drift is an anomaly; some or all (default: %(default)s)",
    )
    checks.add_argument(
        "--block-on",
        default="error",
        metavar="SEVERITY",
        help="which anomalies end the run: error, warning (both) or none (default: error)",
    )
    checks.add_argument(
        "--max-quarantine",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="end the run when more of the rows are set aside (default: 0.05, 5 %%)",
    )


def _add_table_flags(parser: argparse.ArgumentParser) -> None:
    table = parser.add_argument_group("tables (taxi)")
    table.add_argument(
        "--files",
        action="append",
        default=[],
        metavar="PATTERN",
        help="CSV, gzipped CSV or Parquet instead of the sample; again for more",
    )
    table.add_argument(
        "--time-zone",
        default=TIME_ZONE,
        metavar="NAME",
        help="whose wall time a time becomes that names a zone; UTC for exports of BigQuery's "
        "table, which calls the city's wall time so (default: %(default)s)",
    )
    table.add_argument(
        "--ratios",
        default="train=0.8,eval=0.1,test=0.1",
        metavar="SHARES",
        help="share of each split (default: %(default)s)",
    )
    table.add_argument(
        "--split-key",
        default="",
        metavar="COLUMNS",
        help="columns whose hash decides the split (default: unique_key if there, else taxi_id "
        "and trip_start_timestamp, as far as they are there)",
    )
    table.add_argument(
        "--row-filter",
        default="none",
        metavar="NAME",
        help="complete: only rows in which no feature is missing (default: none)",
    )
    table.add_argument(
        "--ignore-columns",
        default="",
        metavar="COLUMNS",
        help="columns of your files to leave out, if the taxi table does not have them",
    )


def _add_bigquery_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "BigQuery (taxi)",
        f"Rows of {TABLE}, kept in --data-dir. Not yet tried against the real service.",
    )
    group.add_argument(
        "--source",
        default="files",
        metavar="NAME",
        help=f"{' or '.join(TABLE_SOURCES)} (default: files)",
    )
    group.add_argument("--project", default="", metavar="ID", help="who pays for the query")
    group.add_argument("--limit", type=int, default=0, metavar="N", help="number of rows")
    group.add_argument(
        "--dates", default="", metavar="FIRST,LAST", help="days on which trips start (default: all)"
    )
