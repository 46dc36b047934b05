"""Prepare examples on the command line, without a pipeline."""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from components.prepare_examples.beam.runner_flags import runner_flags
from components.prepare_examples.command_line.flags import parser
from components.prepare_examples.errors import DataError
from components.prepare_examples.options import PrepareOptions
from components.prepare_examples.prepare import explain, prepare
from components.prepare_examples.publish import local_path
from components.prepare_examples.raw_data.sources import check_data_dir
from components.prepare_examples.tfrecords.shards import DEFAULT_NUM_SHARDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepares examples; answers the exit code: 0 done, 1 a failure, 2 bad input."""
    args = parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # its errors are raised as well
    started = time.monotonic()
    try:
        options = _options(args)
        check_data_dir(args.data_dir)
        if args.dry_run:
            print("\n".join(_explained(args, options)))
            return 0
        manifest = prepare(
            args.workload, output_dir=args.output_dir, data_dir=args.data_dir, options=options
        )
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 130
    _print_summary(manifest["splits"], local_path(args.output_dir), time.monotonic() - started)
    return 0


def _explained(args: argparse.Namespace, options: PrepareOptions) -> list[str]:
    return explain(
        args.workload, output_dir=args.output_dir, data_dir=args.data_dir, options=options
    )


def _options(args: argparse.Namespace) -> PrepareOptions:
    counts = {split: getattr(args, f"{split}_shards") for split in DEFAULT_NUM_SHARDS}
    return PrepareOptions(
        max_examples=args.max_examples,
        trust_files=args.trust_files,
        num_shards={split: count for split, count in counts.items() if count is not None},
        compression=args.compression,
        schema=args.schema,
        baseline=args.baseline,
        drift_thresholds=_numbers("drift-thresholds", args.drift_thresholds, "psi=0.25"),
        block_on=args.block_on,
        max_quarantine=args.max_quarantine,
        time_zone=args.time_zone,
        num_workers=args.num_workers,
        parallelism=args.parallelism,
        target_mb=args.target_mb,
        beam_options=(*_runner_flags(args), *args.beam_options),
        files=args.files,
        source=args.source,
        project=args.project,
        limit=args.limit,
        dates=args.dates,
        ratios=_numbers("ratios", args.ratios, "train=0.8,eval=0.1,test=0.1"),
        split_key=args.split_key,
        row_filter=args.row_filter,
        ignore_columns=args.ignore_columns,
    )


def _runner_flags(args: argparse.Namespace) -> tuple[str, ...]:
    return runner_flags(args.runner, num_workers=args.direct_workers, mode=args.direct_mode)


def _numbers(flag: str, text: str, example: str) -> dict[str, float]:
    try:
        pairs = (item.split("=") for item in text.split(","))
        return {name.strip(): float(number) for name, number in pairs}
    except ValueError:
        raise DataError(f"{flag} is {text!r}; write {example}") from None


def _print_summary(splits: dict[str, dict[str, object]], output: Path, seconds: float) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("split", "examples", "shards", "MB", title=f"{output} ({seconds:.1f} s)")
    for name, split in splits.items():
        shards = split["shards"]
        assert isinstance(shards, list)
        num_bytes = sum((output / shard["file"]).stat().st_size for shard in shards)
        table.add_row(
            name, f"{split['num_examples']:,}", str(len(shards)), f"{num_bytes / 1e6:.1f}"
        )
    Console().print(table)
