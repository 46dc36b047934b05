"""Entries of the step cache, which refer to the files of runs."""

import json
from pathlib import Path

from trainer import Json


def step_cache(state_dir: Path) -> Path:
    """Return the folder of the step cache: a JSON file for each execution of a step."""
    return state_dir / "vertex" / "step_cache"


def read_entry(entry: Path) -> Json:
    """Return the content of an entry, {} if it is damaged or missing."""
    try:
        content = json.loads(entry.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_dangling(entry: Json) -> bool:
    """Return whether an output of an entry is missing; the folder of a pending one exists."""
    folders = (Path(path).parent for path in entry.get("pending", ()))
    files = map(Path, entry.get("files", ()))
    return not all(path.exists() for path in (*files, *folders))
