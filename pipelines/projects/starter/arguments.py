"""The arguments of `trainyard new`."""

import argparse
from pathlib import Path

from components.prepare_examples.errors import DataError
from trainer.errors import near_path

LABEL_KINDS = ("binary", "classes", "multilabel", "regression")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to a parser."""
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="to write; its name is the name")
    add(
        "--table",
        nargs="+",
        metavar="FILE",
        help="CSV, JSON lines (also gzipped) or Parquet files, or a folder of them",
    )
    add(
        "--images",
        metavar="DIR",
        help="a folder with a folder of images for each class; with --table, the folder of the"
        " pictures that its rows name",
    )
    add("--records", nargs="+", metavar="DIR", help="folders of TFRecords, or files")
    add(
        "--script",
        type=Path,
        metavar="FILE",
        help="a Python script that trains a Keras model on the data by trainyard.fit: it is run up"
        " to this call, and the workload trains the same",
    )
    add("--header", default="", metavar="A,B,C", help="the columns of CSV files without a header")
    add("--label", metavar="COLUMN", help="the column, or feature of records, to predict")
    add(
        "--kind",
        choices=LABEL_KINDS,
        default="",
        help="of the label; default: two values are binary, few are classes, numbers a regression",
    )
    add(
        "--written",
        action="append",
        default=[],
        metavar="COLUMN=FORM",
        help="how a column is written: its form of 1234.5, as 1.234,5; a format of times, as"
        " %%d/%%m/%%Y; or text. Without COLUMN= it holds for all that may be read in several ways",
    )
    add("--positive", default="", metavar="VALUE", help="the positive class of a binary label")


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raise DataError if an argument is missing or does not fit the others."""
    data = "--table" if arguments.table else "--records"
    if not (arguments.table or arguments.images or arguments.records):
        raise DataError("give the data: --table, --images or --records, or --images with --table")
    if arguments.records and (arguments.table or arguments.images):
        raise DataError("--records takes neither --table nor --images; give one kind of data")
    has_classes = bool(arguments.images) and not arguments.table
    if not has_classes and not arguments.label and not arguments.script:
        raise DataError(f"{data} needs --label COLUMN, the column to predict")
    if arguments.script and (arguments.records or (arguments.images and arguments.table)):
        raise DataError(
            "--script takes a table or class folders, no records and no table with pictures; write"
            " the folder without it, and give your model to the workload, as model=…"
        )
    if has_classes and (arguments.label or arguments.kind or arguments.positive):
        raise DataError(
            "--images needs no label: the folders' names are the classes; give the file with the"
            " labels of a flat folder as --table"
        )
    if (arguments.header or arguments.written) and not arguments.table:
        raise DataError("--header and --written need --table: they say how its files are written")
    if arguments.script and not arguments.script.is_file():
        hint = near_path(arguments.script)
        raise DataError(f"--script {arguments.script}: there is no such file{hint}")
    if arguments.positive and arguments.kind not in ("", "binary"):
        raise DataError(
            f"--positive {arguments.positive}: only a binary label has a positive class"
        )
