"""Import of our packages from beside this one, whatever folders of these names are on sys.path.

The names `trainer`, `components` and `pipelines` are common: a user's project may have folders of
these names, which come first in sys.path under `python -m`, in a notebook or by PYTHONPATH.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

NAMES = ("trainer", "components", "pipelines")
ROOT = Path(__file__).resolve().parents[1]


class _First(MetaPathFinder):
    """Finder of our packages, asked before sys.path."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(ROOT)]) if name in NAMES else None


class _Last(MetaPathFinder):
    """Finder asked for what nobody has: a module that a user's folder has, and ours has not."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, below = name.partition(".")
        if top in NAMES and below and (hidden := _hidden(top)):
            raise ModuleNotFoundError(
                f"No module named {name!r}: in this process {top!r} is Trainyard's, and hides"
                f" {hidden}; rename yours, or import it in a process without trainyard",
                name=name,
            )
        return None


def install() -> None:
    """Let `import trainer`, `components` and `pipelines` find ours.

    Raises:
        ImportError: another package of one of these names is imported already.
    """
    for name in NAMES:
        module = sys.modules.get(name)
        path = next(iter(getattr(module, "__path__", ())), getattr(module, "__file__", None))
        if module and Path(path or ".").resolve() != ROOT / name:
            raise ImportError(
                f"{name!r} is imported already, from {path}, and hides Trainyard's: rename it,"
                " or import trainyard in a process of its own"
            )
    if not any(isinstance(finder, _First) for finder in sys.meta_path):
        sys.meta_path.insert(0, _First())
        sys.meta_path.append(_Last())


@contextlib.contextmanager
def for_children() -> Iterator[None]:
    """Let programs that are started in the block find ours, too, if PYTHONPATH would hide them."""
    before = os.environ.get("PYTHONPATH")
    if before and any(PathFinder.find_spec(name, before.split(os.pathsep)) for name in NAMES):
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), before])
    try:
        yield
    finally:
        if before:
            os.environ["PYTHONPATH"] = before


def _hidden(name: str) -> str:
    """Return the path of a user's folder or file of this name on sys.path, or ""."""
    spec = PathFinder.find_spec(
        name, [path for path in sys.path if Path(path or ".").resolve() != ROOT]
    )
    return (
        "" if spec is None else str(next(iter(spec.submodule_search_locations or ()), spec.origin))
    )
