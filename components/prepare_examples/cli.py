"""Prepare examples on the command line, without a pipeline."""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import CACHE_DIR, local_path, prepare
from components.prepare_examples.shards import DEFAULT_NUM_SHARDS
from components.prepare_examples.sources import SOURCES

DESCRIPTION = f"""\
Turn a workload's raw data into sharded, gzipped TFRecords of tf.train.Example, with Apache Beam.

The raw files are fetched once into a cache folder, and verified by SHA-256 whenever they are used;
after that no network is needed. The output folder appears only when it is complete: shards named
SPLIT-SSSSS-of-NNNNN.tfrecord.gz, and manifest.json, which says how many examples each holds, where
they come from and their checksums. The same input always gives the same bytes.

workloads: {", ".join(sorted(SOURCES))}"""

EXAMPLES = """\
examples:
  # all of MNIST, from the network or the cache
  python -m components.prepare_examples --workload mnist --output-dir /tmp/mnist

  # a taste: 640 images in the proportions of the whole
  python -m components.prepare_examples --workload mnist --output-dir /tmp/taste --max-examples 640

  # files of your own in MNIST's format, such as Fashion-MNIST, taken as they are
  python -m components.prepare_examples --workload mnist --output-dir /tmp/fashion \\
      --data-dir ~/fashion --trust-files"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepares examples; answers the exit code: 0 done, 1 a failure, 2 bad input."""
    args = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # its errors are raised as well
    started = time.monotonic()
    try:
        manifest = prepare(
            args.workload,
            output_dir=args.output_dir,
            data_dir=args.data_dir,
            max_examples=args.max_examples,
            trust_files=args.trust_files,
            num_shards={split: getattr(args, f"{split}_shards") for split in DEFAULT_NUM_SHARDS},
            beam_options=args.beam_options,
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
        help="the folder to make; replaced if it is one",
    )
    parser.add_argument(
        "--data-dir",
        default="",
        metavar="DIR",
        help=f"cache of the raw files (default: {CACHE_DIR}/WORKLOAD)",
    )
    parser.add_argument(
        "--max-examples",
        type=int,
        default=0,
        metavar="N",
        help="only the first examples of each split, N in all (default: 0, all of them)",
    )
    parser.add_argument(
        "--trust-files",
        action="store_true",
        help="use the files in --data-dir without verifying them, and fetch none",
    )
    for split, count in DEFAULT_NUM_SHARDS.items():
        parser.add_argument(
            f"--{split}-shards",
            type=int,
            default=count,
            metavar="N",
            help=f"number of {split} files (default: {count})",
        )
    parser.add_argument("beam_options", nargs="*", help="Beam's own flags, after --")
    return parser


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
