"""Command line of prepare_examples: prepare examples without a pipeline."""

import argparse
import logging
import sys
from collections.abc import Sequence

from components.errors import exit_code_of
from components.prepare_examples.beam.runner_flags import runner_flags
from components.prepare_examples.prepare import explain_query, prepare
from components.prepare_examples.raw_data.files import CACHE_DIR, check_data_dir
from components.prepare_examples.settings.options import PrepareOptions
from trainer.config.flags import add_flags
from trainer.config.settings import schema_at
from trainer.references import BUILT_IN

DESCRIPTION = f"""\
Turn a workload's raw data into sharded TFRecords of tf.train.Example, with Apache Beam.

The raw files are downloaded once into a cache folder and verified by SHA-256 before each use; after
the first run no network is needed. The output folder appears only when it is complete, and the same
input always gives the same bytes. Data of your own is described by a workload file.

workloads: {", ".join(BUILT_IN)}, or the path of a workload file or its folder"""

EXAMPLES = """\
examples:
  # a small sample: 640 images in the proportions of the whole
  python -m components.prepare_examples --workload mnist --output-dir /tmp/sample --max-examples 640

  # your own table, as churn/workload.py describes it
  python -m components.prepare_examples --workload churn/ --output-dir /tmp/churn --files data.csv

  # the query to BigQuery for a million trips of one year
  python -m components.prepare_examples --workload taxi --output-dir /tmp/taxi --dry-run \\
      --source bigquery --project my-project --limit 1000000 --dates 2016-01-01,2016-12-31"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare examples and return the exit code: 0 done, 1 failed, 2 wrong input."""
    args = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    return exit_code_of(lambda: _prepare(args))


def _prepare(args: argparse.Namespace) -> None:
    options = _options(args)
    check_data_dir(args.data_dir)
    if args.dry_run:
        print(explain_query(args.workload, options))
    else:
        prepare(args.workload, output_dir=args.output_dir, data_dir=args.data_dir, options=options)


def _options(args: argparse.Namespace) -> PrepareOptions:
    flags = vars(args)
    beam = runner_flags(args.runner, num_workers=args.direct_workers)
    texts = {name: flags[name] for name in schema_at(PrepareOptions)["properties"] if name in flags}
    return PrepareOptions.from_texts({**texts, "beam_options": [*beam, *args.beam_options]})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m components.prepare_examples",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workload", required=True, metavar="NAME", help="which data to prepare")
    parser.add_argument(
        "--output-dir",
        required=True,
        metavar="DIR",
        help="folder to create; examples that it already holds are replaced",
    )
    parser.add_argument(
        "--data-dir",
        default="",
        metavar="DIR",
        help=f"cache of the raw files (default: {CACHE_DIR}/WORKLOAD)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the query to BigQuery, and do not run it"
    )
    parser.add_argument(
        "--files",
        action="append",
        default=argparse.SUPPRESS,
        metavar="PATTERN",
        help=f"{schema_at(PrepareOptions, ['files'])['description']}; may be repeated",
    )
    add_flags(parser, PrepareOptions, leave_out=["files", "beam_options", "timeout_seconds"])
    runner = parser.add_argument_group("Beam's runner")
    runner.add_argument(
        "--runner",
        default="",
        metavar="NAME",
        help="DirectRunner (default), DataflowRunner, FlinkRunner, SparkRunner or PortableRunner, "
        "with its own flags after --; its workers must see the raw files and the output folder "
        "under the same paths. Dataflow needs --project, --region and --sdk_container_image, and "
        "stages in the bucket of the output. DirectRunner and PortableRunner are tested",
    )
    runner.add_argument(
        "--direct-workers",
        type=int,
        default=0,
        metavar="N",
        help="processes that do the work of the DirectRunner (default: one per core)",
    )
    runner.add_argument("beam_options", nargs="*", help="Beam's own flags, after --")
    return parser
