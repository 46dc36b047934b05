"""References to workloads: names, modules, paths and snapshots, without loading them.

Not in `workloads`, whose modules import NumPy: commands that only show names start without it.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from trainer.errors import near_path

BUILT_IN = ("cifar10", "mnist", "taxi")
FILE = "workload.py"
VARIABLE = "workload"
STATE_DIR_VARIABLE = "TRAINYARD_DIR"  # folder of this machine's state
CODE_DIR = "code"  # in that folder: snapshots of the user's code
# A snapshot of a folder's code: its name and a digest of its content.
SNAPSHOT = re.compile(r"(?P<name>[a-z][a-z0-9-]*)-(?P<digest>[0-9a-f]{12})")
# An installed module or an entry point with a digest of its package, for cache keys only.
VERSIONED = re.compile(r"(?P<name>[^/@]+)@(?P<digest>[0-9a-f]{12})")
MAX_NAME = 63

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


def is_path(reference: str) -> bool:
    """Return whether a reference is a path: it looks like one, or is a folder."""
    if reference in BUILT_IN:
        return False
    looks_so = "/" in reference or os.sep in reference or reference.startswith(".")
    return looks_so or reference.endswith(".py") or (bool(reference) and Path(reference).is_dir())


def is_module(reference: str) -> bool:
    """Return whether a reference is a dotted module, such as `package.module`."""
    return _MODULE.fullmatch(reference) is not None


def workload_name(reference: str) -> str:
    """Return the name of a reference's workload, without loading it: a path's folder.

    The digest of a snapshot is no part of it.
    """
    if versioned := VERSIONED.fullmatch(reference):
        reference = versioned["name"]
    if is_path(reference):
        file = workload_file(Path(reference))
        reference = file.parent.name if file.name == FILE else file.stem
    elif not SNAPSHOT.fullmatch(reference):
        return module_name(reference)
    snapshot = SNAPSHOT.fullmatch(reference)
    return snapshot["name"] if snapshot else valid_name(reference)


def code_digest(reference: str) -> str:
    """Return the digest of a user's code in a reference, "" if it has none."""
    match = SNAPSHOT.fullmatch(Path(reference).name) or VERSIONED.fullmatch(reference)
    return match["digest"] if match else ""


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """Return the first digits of the SHA-256 of the names in a folder and contents of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def valid_name(text: str) -> str:
    """Return a name made of a folder's: lower-case letters, digits and hyphens, a letter first.

    It is allowed everywhere: in names of runs, in labels, tags of images and paths.
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower(), flags=re.ASCII).strip("-")
    name = name if name[:1].isalpha() else f"w-{name}".rstrip("-")
    return name[:MAX_NAME].rstrip("-")


def module_name(reference: str) -> str:
    """Return `churn` for `teams.churn` and `teams.churn.workload`."""
    parts = reference.split(".")
    return parts[-2] if parts[-1] == VARIABLE and len(parts) > 1 else parts[-1]


def workload_file(path: Path) -> Path:
    """Return the workload's file of a path, which names the file or its folder."""
    absolute = path.expanduser().absolute()
    return absolute if absolute.suffix == ".py" else absolute / FILE


def describe_missing(file: Path) -> str:
    """Return what a path lacks that should name a workload's file, and what may be meant."""
    folder = file.parent
    if not folder.is_dir():
        return f"there is no folder {folder}{near_path(folder)}"
    if file.name != FILE:
        return f"there is no file {file}{near_path(file)}"
    below = sorted(path.parent for path in folder.glob(f"*/{FILE}"))
    files = sorted(path.name for path in folder.glob("*.py"))
    if below:
        hint = f"did you mean {below[0]}?"
    elif files:
        hint = f"it has {', '.join(files[:5])}: give the path of the file instead"
    else:
        hint = f"write one that defines `{VARIABLE} = Table(…)`"
    return f"the folder has no {FILE}; {hint}"
