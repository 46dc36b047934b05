"""Stubs of packages for plots, which a script may lack: nothing of them reaches its fit."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pipelines.projects.scripts.script_text import ScriptFault, ScriptText

PLOTS = ("matplotlib", "seaborn", "plotly", "pydot", "visualkeras")
PACKAGES = {"sklearn": "scikit-learn", "cv2": "opencv-python", "PIL": "pillow"}


def add_stubs(script: ScriptText) -> list[ScriptFault]:
    """Replace absent packages for plots; return a fault for each other module that is absent."""
    absent = {
        name: line
        for name, line in reversed([*script.imports()])
        if name not in sys.modules and importlib.util.find_spec(name) is None
    }
    stubs = tuple(name for name in absent if name in PLOTS)
    if stubs:
        sys.meta_path.append(_Finder(stubs))
    return [
        ScriptFault(
            f"there is no module {name!r}: {_remedy(name, script.path)}",
            line=line,
        )
        for name, line in reversed(absent.items())
        if name not in stubs
    ]


def _remedy(name: str, script: Path) -> str:
    """Return how to get a module: a part of the script's project is no package to install."""
    for folder in script.parents:
        if (folder / name).is_dir() or (folder / f"{name}.py").exists():
            return f"it is in {folder}; start trainyard new in that folder"
    return f"python -m pip install {PACKAGES.get(name, name)}"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Importer of modules that take any call."""

    def __init__(self, names: tuple[str, ...]):
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a stub."""
        del path, target
        is_stub = fullname.split(".", maxsplit=1)[0] in self._names
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if is_stub else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the stub."""
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""


class _Stub(ModuleType):
    """A module or object without effect."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub(name)

    def __call__(self, *_arguments: Any, **_named: Any) -> "_Stub":
        return _Stub("result")

    def __getitem__(self, _key: Any) -> "_Stub":
        return _Stub("item")

    def __setitem__(self, _key: Any, _value: Any) -> None:
        """Do nothing."""

    def __iter__(self) -> Iterator["_Stub"]:
        """Yield two: `figure, axes = plt.subplots()`."""
        return iter([_Stub("figure"), _Stub("axes")])

    def __enter__(self) -> "_Stub":
        return self

    def __exit__(self, *_error: object) -> None:
        """Do nothing."""
