"""The versions that matter in a report of a problem."""

import argparse
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("kfp", "tensorflow", "google-cloud-pipeline-components", "google-cloud-aiplatform")


class ShowVersion(argparse.Action):
    """Prints the versions and ends; they are read only then, and nothing is imported for it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        """Print `trainyard 0.1.0`, and what it runs with, a line each."""
        others = (f"  {name} {_version(name)}" for name in PACKAGES)
        lines = [f"{parser.prog} {_version('trainyard')}", f"  Python {platform.python_version()}"]
        sys.stdout.write("\n".join([*lines, *others, ""]))
        parser.exit()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
