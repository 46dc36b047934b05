"""`python -m pipelines.projects.scripts FOLDER`: run a script, write what a workload takes over.

FOLDER has told.json, as `record` writes it, and of a table columns.parquet: the file's columns by
their declared names. The result is FOLDER's result.json.
"""

import faulthandler
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.projects.scripts.image_script import write_images
from pipelines.projects.scripts.record import RESULT, TOLD
from pipelines.projects.scripts.recorder import run_script
from pipelines.projects.scripts.script_text import ScriptFault, read_script
from pipelines.projects.scripts.table_script import write_table
from pipelines.projects.scripts.written import ScriptParts
from trainer import Json
from trainer.errors import first_line


def main(argv: Sequence[str]) -> int:
    """Record a script; return the exit code."""
    folder = Path(argv[0])
    faulthandler.register(signal.SIGUSR1)  # to find the line of a script that does not end
    told = json.loads((folder / TOLD).read_text())
    try:
        result = _written(told, folder)
    except (ScriptFault, OSError, ValueError) as fault:
        result = {"fault": str(fault), "line": getattr(fault, "line", 0)}
    (folder / RESULT).write_text(json.dumps(result))
    return 0


def _written(told: Json, folder: Path) -> Json:
    path = Path(told["script"])
    sys.path.insert(0, str(path.parent))
    script = read_script(path)
    script.check_fit(told["label"], images=told["images"])
    recording = run_script(script)
    write = write_images if told["images"] else write_table
    try:
        return write(ScriptParts(recording), told, folder)
    except ScriptFault as fault:
        fault.line = fault.line or recording.line
        raise
    except Exception as error:  # of the user's code, or of Keras
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ScriptFault(reason, line=recording.line) from error


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # no destructors: TensorFlow's may wait for threads
