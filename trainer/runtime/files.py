"""Files and folders of a job, on a disk or in a bucket."""

import json
from typing import Any

import tensorflow as tf


def read_json(path: str) -> Any:
    """Return the content of a JSON file; ValueError if it is damaged."""
    with tf.io.gfile.GFile(path, "r") as file:
        return json.loads(file.read())


def write_json(path: str, content: Any) -> None:
    """Write a JSON file, which appears when it is complete."""
    with tf.io.gfile.GFile(f"{path}.new", "w") as file:
        file.write(json.dumps(content))
    tf.io.gfile.rename(f"{path}.new", path, overwrite=True)


def delete_folder(path: str) -> None:
    """Delete a folder if it exists."""
    if tf.io.gfile.isdir(path):
        tf.io.gfile.rmtree(path)
