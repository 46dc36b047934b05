"""Artifact folders of model versions, copied atomically, so that none is incomplete."""

import shutil
from pathlib import Path

from vertex_local.errors import invalid_argument
from vertex_local.machine import lost_and_found
from vertex_local.machine.files import local_path, path_problem
from vertex_local.machine.lost_and_found import discard

INCOMING = ".incoming"


class _CopyError(Exception):
    """An OSError of `copytree`, which would collect the original and continue copying."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def local_folder(uri: str, *, root: Path) -> Path:
    """Return the existing folder of an artifact URI: an absolute path, file:// or gs://.

    Raises:
        ApiError: INVALID_ARGUMENT.
    """
    path = local_path(uri)
    if path is None:
        raise invalid_argument(f'model.artifactUri "{uri}" {path_problem(uri)}.')
    if not path.is_dir():
        problem = "is not a folder" if path.exists() else "does not exist"
        raise invalid_argument(f'model.artifactUri "{uri}" {problem}.')
    if root.resolve().is_relative_to(path.resolve()):
        raise invalid_argument(
            f'model.artifactUri "{uri}" contains the service\'s own root folder.'
        )
    return path


def copy_in(source: Path, *, root: Path, key: str) -> Path:
    """Copy a folder to ROOT/models/.incoming/KEY; remove the copy if that fails."""
    target = root / "models" / INCOMING / key
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, copy_function=_copy_file)
    except (OSError, _CopyError) as error:
        discard(target)
        raise error.cause if isinstance(error, _CopyError) else error from None
    return target


def place(incoming: Path, target: Path) -> None:
    """Move a complete copy to its folder; replace the one of an interrupted upload."""
    discard(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    incoming.rename(target)


def clean(root: Path, known: set[Path]) -> None:
    """Remove incomplete copies, and clear the folders of all versions that are not in `known`."""
    discard(root / "models" / INCOMING)
    lost_and_found.clear(root, set((root / "models").glob("*/*")) - known)


def _copy_file(source: str, target: str) -> str:
    try:
        return shutil.copy2(source, target)
    except OSError as error:
        raise _CopyError(error) from None
