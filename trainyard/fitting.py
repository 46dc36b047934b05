"""`trainyard.fit`: the `fit` of a script, with two more words that make a workload of it."""

import sys
from typing import Any

RECORDER = "pipelines.projects.scripts.recorder"


def fit(
    model: Any, *arguments: Any, rows: Any = None, images: Any = None, label: str = "", **named: Any
) -> Any:
    """Train a Keras model by its `fit`; return the history.

    `trainyard new NAME --table FILE --script SCRIPT` runs a script up to this call, and writes
    a workload that trains the same.

    Args:
        model: compiled.
        arguments: of `model.fit`.
        rows: the table's rows in the order of x: a pandas object with the file's index, the
            numbers of the rows from 0, or records, such as those of `csv.DictReader`.
        images: in place of rows, the folder with a folder of images for each class.
        label: the column to predict, which y is made of.
        named: further arguments of `model.fit`.
    """
    # Only the process of `trainyard new --script` has a recording.
    recording = getattr(sys.modules.get(RECORDER), "current", None)
    if recording is None:
        return model.fit(*arguments, **named)
    return recording.fit(model, arguments, named, {"rows": rows, "images": images, "label": label})
