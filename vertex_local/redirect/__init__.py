"""Redirection of Google's SDK in other programs: Python imports `sitecustomize` of this folder."""

import os
from pathlib import Path

from vertex_local.client import EMULATOR_VARIABLE

FOLDER = str(Path(__file__).parent)


def variables(host: str) -> dict[str, str]:
    """Return the variables of programs whose Google SDK sends its requests to `host`."""
    return {
        EMULATOR_VARIABLE: host,
        "PYTHONPATH": joined(FOLDER, os.environ.get("PYTHONPATH", "")),
    }


def joined(*paths: str) -> str:
    """Return the folders of several search paths, each once."""
    folders = os.pathsep.join(paths).split(os.pathsep)
    return os.pathsep.join(filter(None, dict.fromkeys(folders)))
