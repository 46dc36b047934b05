"""Golden predictions in a model's folder, to check any of its versions later."""

import json

from components.model_version.companions import GOLDEN_FILE, read_companion_object, write_companion
from trainer import Json

FIELDS = ("instances", "predictions", "labels")


def write_golden(model_dir: str, golden: Json) -> None:
    """Write instances, offline predictions and true labels beside a SavedModel."""
    write_companion(model_dir, GOLDEN_FILE, json.dumps(golden))


def read_golden(version: Json) -> Json | None:
    """Read the golden predictions of a model version; None if it has none.

    They are in the version's artifact folder, on this machine or in a bucket.

    Raises:
        InputError: their file is damaged.
    """
    return read_companion_object(version.get("artifactUri", ""), GOLDEN_FILE, *FIELDS)
