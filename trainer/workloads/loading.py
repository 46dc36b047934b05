"""Loading of workloads: from this package, an entry point, a module, or a file of the user.

A user's file is loaded as a module of a private package whose search path is the file's folder, so
`from . import helpers` imports the helpers.py beside it. The folder is also the last entry of
sys.path, for `import helpers`. It is the last one because the folder may contain a trainer.py or a
folder named components: those names remain ours there, and `from . import trainer` imports the
user's.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from trainer.errors import did_you_mean
from trainer.references import (
    BUILT_IN,
    CODE_DIR,
    FILE,
    SNAPSHOT,
    STATE_DIR_VARIABLE,
    VARIABLE,
    VERSIONED,
    describe_missing,
    files_digest,
    is_module,
    is_path,
    module_name,
    workload_file,
    workload_name,
)
from trainer.workloads.base import Workload

ENTRY_POINTS = "trainyard.workloads"
# Where an image has the folders of workloads, by the names of their snapshots.
IMAGE_DIR = "/opt/trainyard/workloads"
IMAGE_DIR_VARIABLE = "TRAINYARD_WORKLOADS"

_PREFIX = "trainyard_workload_"
_NOT_WORDS = re.compile(r"\W")


class WorkloadError(ValueError):
    """A reference to no workload, or to a file that does not define one."""


def load_workload(reference: str) -> Workload:
    """Return the workload that a reference names.

    Args:
        reference: the name of a workload of this package or of an entry point, a dotted module such
            as `package.module`, a path (a folder with a workload.py, or a .py file), or the name of
            a snapshot that this image has.

    Raises:
        WorkloadError: there is no such workload, or its file fails; the message has the line.
    """
    if versioned := VERSIONED.fullmatch(reference):
        reference = versioned["name"]
    if reference in BUILT_IN:
        return _load_module(f"trainer.workloads.{reference}", reference, name=reference)
    name = Path(reference).name
    if SNAPSHOT.fullmatch(name) and not Path(reference).is_dir():
        # Also for the path of a snapshot on another machine.
        folder = Path(os.environ.get(IMAGE_DIR_VARIABLE, IMAGE_DIR), name)
        if not folder.is_dir():
            raise WorkloadError(
                f"{name!r} is the snapshot of a folder, but {folder} does not exist: run it in the"
                " image of the folder, which `trainyard image --project FOLDER --build` builds"
            )
        return _load_path(folder, name)
    if is_path(reference):
        return _load_path(Path(reference), reference)
    entries = _entry_points()
    if reference in entries:
        return _load_entry_point(entries[reference], reference)
    if is_module(reference):
        return _load_module(reference, reference, name=module_name(reference))
    names = (*BUILT_IN, *sorted(entries))
    raise WorkloadError(
        f"{reference!r} is not a workload;{did_you_mean(reference, names)} allowed are"
        f" {', '.join(names)}, the path of a folder with a {FILE}, and a package.module"
    )


def is_own_code(reference: str, *, beside: str = "") -> bool:
    """Return whether a model from another author may name this code: it is the user's own anyway.

    It is own if it is a built-in workload, the entry point of an installed package, or a snapshot
    in a folder that only this machine's runs and images write to, outside every model: the image's
    folder, `code` in the local state, or the folder of the snapshot `beside`. The path is compared
    after `..` and links are resolved, so no file of a model's folder can make its code own. Dotted
    modules are not own: importing any installed module may have effects. `beside` is the reference
    of the caller's own workload, if it is known.
    """
    if versioned := VERSIONED.fullmatch(reference):
        reference = versioned["name"]
    if reference in (*BUILT_IN, beside):
        return True
    name = Path(reference).name
    if SNAPSHOT.fullmatch(name) and not Path(reference).is_dir():
        return True  # of the image, if anywhere
    if not is_path(reference):
        return reference in _entry_points() or not is_module(reference)
    folders = [Path(os.environ.get(IMAGE_DIR_VARIABLE, IMAGE_DIR))]
    if state_dir := os.environ.get(STATE_DIR_VARIABLE):
        folders.append(Path(state_dir, CODE_DIR))
    if SNAPSHOT.fullmatch(Path(beside).name):
        folders.append(Path(beside).parent)
    file = workload_file(Path(reference)).resolve()
    is_snapshot = file.name == FILE and SNAPSHOT.fullmatch(file.parent.name) is not None
    return is_snapshot and file.parent.parent in [folder.resolve() for folder in folders]


def package_digest(reference: str) -> str:
    """Return twelve hexadecimal digits of the SHA-256 of the package of a module or entry point.

    It must be loaded.
    """
    entry = _entry_points().get(reference)
    top = sys.modules[(entry.module if entry else reference).partition(".")[0]]
    file = Path(top.__file__ or next(iter(top.__path__)))
    folder = file.parent if file.name == "__init__.py" else file
    return files_digest(folder, sorted(folder.rglob("*.py")) if folder.is_dir() else [folder])


def _load_path(path: Path, reference: str) -> Workload:
    file = workload_file(path)
    if not file.is_file():
        raise WorkloadError(f"{reference}: {describe_missing(file)}")
    folder = file.parent
    name = workload_name(reference)
    package = f"{_PREFIX}{_NOT_WORDS.sub('_', name)}_{_digest(file)}"
    module = sys.modules.get(f"{package}.{file.stem}")
    if module is None:
        _forget_other_folders(folder)
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        module = _execute(package, file)
    own = reference if SNAPSHOT.fullmatch(reference) else str(path.expanduser().absolute())
    return _workload_of(module, str(file), name=name, reference=own)


def _digest(file: Path) -> str:
    """Return a digest of a file's path and of the modules beside it: changed ones are reloaded."""
    digest = hashlib.sha256(str(file).encode())
    for module in sorted(file.parent.glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()[:12]


def _forget_other_folders(folder: Path) -> None:
    """Remove modules from folders of workloads that were loaded before, and earlier versions.

    Two folders may each have a helpers.py, of which sys.modules can hold only one.
    """
    loaded = {
        str(path)
        for name, module in sys.modules.items()
        if name.startswith(_PREFIX) and "." not in name
        for path in module.__path__
    }
    if not loaded:
        return  # 40 ms sooner: nearly always, as few processes load a second one
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not path or name.startswith(_PREFIX) or not path.startswith(tuple(loaded)):
            continue
        if _top_folder(name, path) in loaded:
            del sys.modules[name]
    sys.path[:] = [path for path in sys.path if path not in loaded - {str(folder)}]


def _top_folder(name: str, path: str) -> str:
    """Return the folder from which a module or its top-level package was imported."""
    levels = name.count(".") + (Path(path).name == "__init__.py") + 1
    parents = Path(path).parents
    return str(parents[min(levels, len(parents)) - 1])


def _execute(package: str, file: Path) -> ModuleType:
    parent = ModuleType(package)
    parent.__path__ = [str(file.parent)]
    spec = importlib.util.spec_from_file_location(f"{package}.{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[package], sys.modules[spec.name] = parent, module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            del sys.modules[name]
        raise WorkloadError(_describe_failure(error, file.parent)) from error
    return module


def _describe_failure(error: Exception, folder: Path) -> str:
    """Return the innermost line of the user's files in a traceback, and the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    line = f"{own[-1].filename}, line {own[-1].lineno}" if own else str(folder)
    # The message of a declaration's own check is enough.
    is_ours = type(error) is ValueError and frames[-1].filename.startswith(_OURS)
    if isinstance(error, ModuleNotFoundError):
        remedy = "; if it is a package, name that in requirements.txt and install it"
        return f"{line}: ModuleNotFoundError: {error}{remedy}"
    return f"{line}: {error}" if is_ours else f"{line}: {type(error).__name__}: {error}"


_OURS = str(Path(__file__).parents[1])


def _load_module(module: str, reference: str, *, name: str) -> Workload:
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise WorkloadError(
                f"{reference!r} is not a workload: there is no module {error.name!r}; give the path"
                f" of a folder with a {FILE}, or install the package"
            ) from error
        raise WorkloadError(f"{reference}: {error}") from error
    except Exception as error:
        spec = importlib.util.find_spec(module)
        folder = Path(spec.origin).parent if spec and spec.origin else Path(module)
        raise WorkloadError(_describe_failure(error, folder)) from error
    return _workload_of(loaded, loaded.__file__ or module, name=name, reference=reference)


def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)}


def _load_entry_point(entry: importlib.metadata.EntryPoint, reference: str) -> Workload:
    try:
        loaded = entry.load()
    except Exception as error:
        raise WorkloadError(
            f"the entry point {reference!r} of {ENTRY_POINTS}, {entry.value}, fails:"
            f" {type(error).__name__}: {error}"
        ) from error
    if not isinstance(loaded, ModuleType):
        return _checked(loaded, entry.value, name=reference, reference=reference)
    return _workload_of(loaded, entry.value, name=reference, reference=reference)


def _workload_of(module: ModuleType, origin: str, *, name: str, reference: str) -> Workload:
    if not hasattr(module, VARIABLE):
        names = [key for key, value in vars(module).items() if isinstance(value, Workload)]
        hint = f"; rename {names[0]!r} to it" if names else f"; add `{VARIABLE} = Table(…)`"
        raise WorkloadError(f"{origin} does not define the variable {VARIABLE!r}{hint}")
    workload = _checked(getattr(module, VARIABLE), origin, name=name, reference=reference)
    setattr(module, VARIABLE, workload)  # the same object for the next call
    return workload


def _checked(workload: Any, origin: str, *, name: str, reference: str) -> Workload:
    if isinstance(workload, type) and issubclass(workload, Workload):
        raise WorkloadError(f"{origin}: {VARIABLE} is the class {workload.__name__}; call it")
    if not isinstance(workload, Workload):
        raise WorkloadError(
            f"{origin}: {VARIABLE} is {type(workload).__name__} {workload!r:.60}; it must be a"
            " Table, ImageFolder, Records or another Workload"
        )
    return workload.with_name(name, reference)
