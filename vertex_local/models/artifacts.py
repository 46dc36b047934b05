"""Artifact folders of model versions, copied atomically, so that none is incomplete."""

import logging
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vertex_local.errors import ApiError, invalid_argument

logger = logging.getLogger(__name__)

INCOMING = ".incoming"


class _CopyError(Exception):
    """An OSError of `copytree`, which would collect the original and continue copying."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def local_folder(uri: str, *, root: Path) -> Path:
    """Return the existing folder of an artifact URI: an absolute path or file://.

    Raises:
        ApiError: INVALID_ARGUMENT.
    """
    path = _local_path(uri)
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
    except _CopyError as error:
        discard(target)
        raise error.cause from None
    except shutil.Error as error:
        discard(target)
        raise OSError(f"{source} cannot be copied: {error.args[0]}") from None
    except OSError:
        discard(target)
        raise
    return target


def discard(folder: Path) -> None:
    """Remove a folder, if it exists; if that fails, the next start removes it."""
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            shutil.rmtree(folder)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError:
            logger.exception("%s cannot be removed", folder)


def place(incoming: Path, target: Path) -> None:
    """Move a complete copy to its folder; replace the one of an interrupted upload."""
    discard(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    incoming.rename(target)


def clean(root: Path, known: set[Path]) -> None:
    """Remove the folders of interrupted uploads and deletions: all versions not in `known`."""
    discard(root / "models" / INCOMING)
    for folder in (root / "models").glob("*/*"):
        if folder not in known:
            logger.info("Removing %s of an interrupted upload or deletion", folder)
            discard(folder)
            with suppress(OSError):
                folder.parent.rmdir()


def _copy_file(source: str, target: str) -> str:
    try:
        return shutil.copy2(source, target)
    except OSError as error:
        raise _CopyError(error) from None


def _local_path(uri: str) -> Path:
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = Path(unquote(parts.path))
    elif parts.scheme:
        raise _not_local(uri)
    else:
        path = Path(uri)
    if not path.is_absolute():
        raise _not_local(uri)
    return path


def _not_local(uri: str) -> ApiError:
    return invalid_argument(
        f'model.artifactUri "{uri}" is not on this machine; use an absolute path or file:///path '
        "(copy gs:// folders to this machine first, for example with `gcloud storage cp -r`)."
    )
