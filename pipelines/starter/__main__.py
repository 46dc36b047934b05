"""`python -m pipelines.starter FOLDER`: write the folder of a workload from its data."""

import argparse
import logging
import sys
from collections.abc import Sequence

from components.errors import StepError
from pipelines.exit_codes import OK, USAGE
from pipelines.starter.arguments import add_arguments, check_arguments
from pipelines.starter.folder import Start, check_new, write_folder
from pipelines.starter.tables import start_table


def main(argv: Sequence[str] | None = None) -> int:
    """Write a folder and say what is in it; return the exit code."""
    parser = argparse.ArgumentParser(prog="trainyard new")
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        check_arguments(arguments)
        check_new(arguments.folder)
        start = _start(arguments)
        names = write_folder(arguments.folder, start)
    except (StepError, OSError, ValueError) as error:
        sys.stderr.write(f"trainyard: {error}\n")
        return USAGE
    folder = str(arguments.folder).rstrip("/")
    lines = [
        f"wrote {folder}: {', '.join(names)}",
        *(f"note: {note}" for note in start.notes),
        f"try it: trainyard check {folder}",
        f"run it: trainyard run {folder}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return OK


def _start(arguments: argparse.Namespace) -> Start:
    how = {"kind": arguments.kind, "positive": arguments.positive}
    return start_table(arguments.table, arguments.label, **how)


if __name__ == "__main__":
    sys.exit(main())
