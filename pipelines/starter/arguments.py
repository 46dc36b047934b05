"""The arguments of `trainyard new`."""

import argparse
from pathlib import Path

from components.prepare_examples.errors import DataError

LABEL_KINDS = ("binary", "classes", "multilabel", "regression")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to a parser."""
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="to write; its name is the name"
    )
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument(
        "--table", nargs="+", metavar="FILE", help="CSV (also gzipped) or Parquet files"
    )
    parser.add_argument("--label", metavar="COLUMN", help="the column to predict")
    parser.add_argument(
        "--kind",
        choices=LABEL_KINDS,
        default="",
        help="of the label; default: two values are binary, few are classes, numbers a regression",
    )
    parser.add_argument(
        "--positive", default="", metavar="VALUE", help="the positive class of a binary label"
    )


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raise DataError if an argument is missing or does not fit the others."""
    if arguments.table and not arguments.label:
        raise DataError("--table needs --label COLUMN, the column to predict")
    if arguments.positive and arguments.kind not in ("", "binary"):
        raise DataError(
            f"--positive {arguments.positive}: only a binary label has a positive class"
        )
