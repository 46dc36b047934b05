"""`python -m pipelines.projects.scripts SCRIPT FOLDER`: record a script, write the result as JSON.

FOLDER has columns.parquet, the file's columns by their declared names; or with --classes the
script trains on images. The result is FOLDER's result.json.
"""

import argparse
import faulthandler
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.projects.scripts.images import write_images
from pipelines.projects.scripts.record import COLUMNS, RESULT
from pipelines.projects.scripts.recorder import Recording, run_script
from pipelines.projects.scripts.script_text import ScriptFault, read_script
from pipelines.projects.scripts.tables import write_table
from pipelines.projects.scripts.written import Written
from trainer import Json
from trainer.errors import first_line


def main(argv: Sequence[str] | None = None) -> int:
    """Record a script; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.projects.scripts")
    parser.add_argument("script", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--label", default="", help="the column to predict")
    parser.add_argument("--kind", default="", help="of the label")
    parser.add_argument("--images", type=Path, help="a folder of class folders")
    parser.add_argument("--classes", default="{}", help="the images of each class, as JSON")
    arguments = parser.parse_args(argv)
    faulthandler.register(signal.SIGUSR1)  # to find the line of a script that does not end
    sys.path.insert(0, str(arguments.script.parent))
    try:
        script = read_script(arguments.script)
        script.check_fit(arguments.label, images=str(arguments.images or ""))
        recording = run_script(script)
        if recording.fault:
            raise recording.fault
        result = _written(recording, arguments)
    except (ScriptFault, OSError, ValueError) as fault:
        result = {"fault": str(fault), "line": getattr(fault, "line", 0)}
    (arguments.folder / RESULT).write_text(json.dumps(result))
    return 0


def _written(recording: Recording, arguments: argparse.Namespace) -> Json:
    try:
        written = Written(recording)
        if arguments.images:
            classes = json.loads(arguments.classes)
            return write_images(written, arguments.images, classes, arguments.folder)
        columns = arguments.folder / COLUMNS
        return write_table(written, columns, label=arguments.label, kind=arguments.kind)
    except ScriptFault as fault:
        fault.line = fault.line or recording.line
        raise
    except Exception as error:  # of the user's code, or of Keras
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ScriptFault(reason, line=recording.line) from error


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # no destructors: TensorFlow's may wait for threads
