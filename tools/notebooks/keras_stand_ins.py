"""Keras' data sets from the folder KERAS_STAND_INS: Keras refuses files of other content.

`write_wheel` writes a wheel that brings this into a Python.
"""

import os
import re
import sys
import zipfile
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

NAME = "keras_stand_ins"
GETTING = re.compile(r"(tf_)?keras\.src\.utils\.(data|file)_utils")


class _Finder:
    """Finder of the modules with `get_file`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if GETTING.fullmatch(fullname) else None
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_replace(module: ModuleType) -> None:
                execute(module)
                module.get_file = get_file  # type: ignore[attr-defined]

            spec.loader.exec_module = execute_and_replace  # type: ignore[method-assign]
        return spec


def get_file(fname: str, *_arguments: object, **_options: object) -> str:
    """Return the path of a data set."""
    return os.path.join(os.environ["KERAS_STAND_INS"], fname)


def write_wheel(path: Path) -> None:
    """Write this module as a wheel, with a line that each start of Python executes."""
    info = f"{NAME}-1.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.write(__file__, f"{NAME}.py")
        wheel.writestr(f"{NAME}.pth", f"import {NAME}\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


if "KERAS_STAND_INS" in os.environ:
    sys.meta_path.insert(0, _Finder())
