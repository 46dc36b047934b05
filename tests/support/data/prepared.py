"""Content of a folder of prepared examples."""

import json
from pathlib import Path


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def quarantined(folder: Path) -> list[dict]:
    """Return the records of the quarantine, in order."""
    files = sorted(folder.glob("quarantine-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
