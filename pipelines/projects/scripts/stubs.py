"""Absent modules of a script: those for plots get stubs, since nothing of them reaches its fit."""

import ast
import builtins
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pipelines.projects.scripts.script_text import ScriptFault, ScriptText

PLOTS = ("matplotlib", "seaborn", "plotly", "pydot", "visualkeras")
PACKAGES = {"sklearn": "scikit-learn", "cv2": "opencv-python", "PIL": "pillow"}


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


def add_stubs(script: ScriptText) -> list[ScriptFault]:
    """Replace absent packages for plots, and what notebooks have; return other absent modules."""
    absent = {
        name: line
        for name, line in reversed([*script.imports()])
        if name not in sys.modules and importlib.util.find_spec(name) is None
    }
    for name in ("get_ipython", "display"):  # of an exported notebook
        setattr(builtins, name, _Stub(name))
    for name in _modules(script.tree):
        if name.partition(".")[0] in {*PLOTS} & {*absent}:
            sys.modules[name] = _Stub(name)
    return [
        ScriptFault(f"there is no module {name!r}: {_remedy(name, script.path)}", line=line)
        for name, line in reversed(absent.items())
        if name not in PLOTS
    ]


def _modules(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names += [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module)):
                names.append(module)
    return [".".join(name.split(".")[:at]) for name in names for at in (1, 2, 3)]


def _remedy(name: str, script: Path) -> str:
    """Return how to get a module: a part of the script's project is no package to install."""
    for folder in script.parents:
        if (folder / name).is_dir() or (folder / f"{name}.py").exists():
            return f"it is in {folder}; start trainyard new in that folder"
    return f"python -m pip install {PACKAGES.get(name, name)}"
