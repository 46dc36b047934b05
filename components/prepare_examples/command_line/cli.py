"""Command line of prepare_examples: prepare examples without a pipeline."""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Sequence

from components.errors import exit_code_of
from components.prepare_examples.beam.runner_flags import runner_flags
from components.prepare_examples.command_line.flags import create_parser
from components.prepare_examples.prepare import explain, prepare
from components.prepare_examples.raw_data.folders import check_data_dir
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.shards import DEFAULT_NUM_SHARDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare examples and return the exit code: 0 done, 1 failed, 2 wrong input."""
    args = create_parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    return exit_code_of(lambda: _prepare(args))


def _prepare(args: argparse.Namespace) -> None:
    options = _options(args)
    check_data_dir(args.data_dir)
    folders = {"output_dir": args.output_dir, "data_dir": args.data_dir}
    if args.dry_run:
        print("\n".join(explain(args.workload, **folders, options=options)))
    else:
        prepare(args.workload, **folders, options=options)


def _options(args: argparse.Namespace) -> PrepareOptions:
    flags = vars(args)
    names = {field.name for field in dataclasses.fields(PrepareOptions)} & set(flags)
    counts = {split: flags[f"{split}_shards"] for split in DEFAULT_NUM_SHARDS}
    beam = runner_flags(args.runner, num_workers=args.direct_workers)
    return PrepareOptions(
        **{name: flags[name] for name in names}
        | {
            "num_shards": {split: count for split, count in counts.items() if count is not None},
            "beam_options": (*beam, *args.beam_options),
        }
    )
