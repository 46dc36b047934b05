"""`trainyard new FOLDER`: write the folder of a workload from its data."""

import argparse
import logging
import shlex
import sys

from components.errors import StepError
from pipelines.projects.literals import printable
from pipelines.projects.starter.arguments import check_arguments
from pipelines.projects.starter.folder import NewFolder, check_new, write_folder
from pipelines.projects.starter.images import start_images
from pipelines.projects.starter.records import start_records
from pipelines.projects.starter.tables import start_table
from trainer.errors import ConfigError
from trainer.runtime import tensorflow_logs


def start(arguments: argparse.Namespace) -> None:
    """Write a folder and say what is in it.

    Raises:
        ConfigError: the data is unusable, or an argument does not fit it.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        check_arguments(arguments)
        check_new(arguments.folder)
        content = _content(arguments)
        names = write_folder(arguments.folder, content)
    except (StepError, OSError, ValueError) as error:
        raise ConfigError(str(error)) from error
    folder = str(arguments.folder).rstrip("/")
    lines = [
        f"wrote {folder}: {', '.join(names)}",
        *(f"note: {note}" for note in content.notes),
        f"try it: trainyard check {shlex.quote(folder)}",
        f"run it: trainyard run {shlex.quote(folder)}",
    ]
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def _content(arguments: argparse.Namespace) -> NewFolder:
    label, kind, script = arguments.label or "", arguments.kind, arguments.script
    if arguments.table:
        header = [name.strip() for name in arguments.header.split(",") if name.strip()]
        options = {"kind": kind, "positive": arguments.positive, "images": arguments.images or ""}
        told = {
            name: form for name, _, form in (text.rpartition("=") for text in arguments.written)
        }
        return start_table(
            arguments.table, label, **options, script=script, header=header, told=told
        )
    if arguments.images:
        return start_images(arguments.images, script=script)
    logging.getLogger(__name__).info("reading records with TensorFlow …")
    tensorflow_logs.import_tensorflow()
    return start_records(arguments.records, label, kind=kind)
