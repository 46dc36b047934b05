"""`python -m pipelines.projects.scripts SCRIPT FOLDER`: record a script, write the result as JSON.

With --label FOLDER has columns.parquet, the file's columns by their declared names; with --classes
the script trains on images; with neither on records, and its function is taken. The result is
FOLDER's result.json.
"""

import argparse
import faulthandler
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pipelines.projects.scripts.compare_rows import FileColumn
from pipelines.projects.scripts.record import COLUMNS, RESULT
from pipelines.projects.scripts.recorder import run_script
from pipelines.projects.scripts.script_text import ScriptFault, read_script
from pipelines.projects.scripts.stubs import add_stubs
from pipelines.projects.scripts.written import Written
from pipelines.projects.scripts.written_function import WrittenFunction
from pipelines.projects.scripts.written_images import WrittenImages
from pipelines.projects.scripts.written_table import WrittenTable
from trainer import Json


def main(argv: Sequence[str] | None = None) -> int:
    """Record a script; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.projects.scripts")
    parser.add_argument("script", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--current", type=Path, required=True, help="folder to run it in")
    parser.add_argument("--label", default="", help="the column to predict")
    parser.add_argument("--classes", nargs="+", default=(), help="of images")
    arguments = parser.parse_args(argv)
    faulthandler.register(signal.SIGUSR1)  # to find the line of a script that does not end
    path = arguments.script
    os.chdir(arguments.current)
    sys.path.insert(0, str(path.parent))
    sys.path.append(str(arguments.current))
    result = _record(path, arguments.folder, arguments.label, arguments.classes)
    (arguments.folder / RESULT).write_text(json.dumps(result))
    return 0


def _record(path: Path, folder: Path, label: str, classes: Sequence[str]) -> Json:
    try:
        text = read_script(path)
    except (ScriptFault, OSError, ValueError) as error:
        return {"faults": [_as_json(error)]}
    if absent := add_stubs(text):
        return {"faults": [_as_json(fault) for fault in absent]}
    recording = run_script(text)
    columns = _read_columns(folder / COLUMNS) if label else []
    target = [column for column in columns if column.name == label]
    features = [column for column in columns if column.name != label]
    written: Written
    reasons = [recording.fault] if recording.fault else []
    if not reasons and (classes or columns):
        written = (
            WrittenImages(text, recording, classes)
            if classes
            else WrittenTable(text, recording, features, target[0])
        )
        result = written.take_over(folder)
        # One that trains only as a program has a function that works without its rows.
        if not written.faults or "__main__" not in text.text:
            return result
        reasons = written.faults
    elif any(text.calls("fit")) and "__main__" not in text.text:
        no_rows = "it trains while it is executed, which only --table and --images take over"
        return {"faults": [_as_json(fault) for fault in reasons or [ScriptFault(no_rows)]]}
    values = classes or [value for column in target for value in column.classes]
    written = WrittenFunction(
        text, recording, {column.name: column.is_text for column in features}, values
    )
    for fault in reasons if recording.line else ():
        written.notes.append(f"line {fault.line}: {fault}; so only the function is taken over")
    return written.take_over(folder)


def _as_json(fault: Exception) -> Json:
    return {"line": getattr(fault, "line", 0), "message": str(fault)}


def _read_columns(path: Path) -> list[FileColumn]:
    table = pq.read_table(path)
    names = json.loads(table.schema.metadata[b"originals"])
    columns = []
    for name in table.column_names:
        values = table[name].to_pylist()
        is_text = table.schema.field(name).type == "string"
        missing = "" if is_text else np.nan
        known = [missing if value is None else value for value in values]
        array = np.array(known, dtype=object if is_text else np.float64)
        columns.append(FileColumn(name, array, names.get(name, name)))
    return columns


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # no destructors: TensorFlow's may wait for threads
