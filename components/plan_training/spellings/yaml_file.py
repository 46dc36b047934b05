"""YAML files of clusters and prices."""

from pathlib import Path
from typing import Any

from components.shared.text.yaml_text import YamlError, read_yaml_file
from trainer.errors import ClusterError


def read_yaml(path: Path) -> Any:
    """Return the content of a file.

    Raises:
        ClusterError: it is not YAML, has aliases, or has a key twice; names the line.
        OSError: it cannot be read.
    """
    try:
        return read_yaml_file(path)[0]
    except YamlError as error:
        raise ClusterError(str(error)) from error
