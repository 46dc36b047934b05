"""Command line of prepare_examples: prepare examples without a pipeline."""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Sequence

from components.prepare_examples.beam.runner_flags import runner_flags
from components.prepare_examples.command_line.flags import create_parser
from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import explain, prepare
from components.prepare_examples.raw_data.folders import check_data_dir
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.shards import DEFAULT_NUM_SHARDS
from trainer.errors import ConfigError


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare examples and return the exit code: 0 done, 1 failed, 2 wrong input."""
    args = create_parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        options = _options(args)
        check_data_dir(args.data_dir)
        folders = {"output_dir": args.output_dir, "data_dir": args.data_dir}
        if args.dry_run:
            print("\n".join(explain(args.workload, **folders, options=options)))
            return 0
        prepare(args.workload, **folders, options=options)
    except (ConfigError, DataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 130
    return 0


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
