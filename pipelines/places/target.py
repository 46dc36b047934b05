"""Targets: a project and region of Vertex AI, or the folder of this machine's service."""

import logging
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from components.shared.vertex.api import VertexApi, connect
from trainer import paths
from trainer.errors import ConfigError
from trainer.references import STATE_DIR_VARIABLE

logger = logging.getLogger(__name__)

LOCAL_PROJECT = "local"
DEFAULT_LOCATION = "us-central1"
# Google's components paste paths into JSON; half surrogates are bytes that are not UTF-8.
NOT_IN_JSON = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')


@dataclass(frozen=True, kw_only=True)
class Target:
    """A project and region, and the folders of runs' files.

    `pipeline_root` and `data_root` are local folders or gs:// addresses.
    """

    project: str
    location: str
    pipeline_root: str
    data_root: str
    state_dir: Path

    @property
    def parent(self) -> str:
        """Return the parent of all resource names: `projects/P/locations/L`."""
        return f"projects/{self.project}/locations/{self.location}"

    def connect(self) -> VertexApi:
        """Return the API, which the environment may direct to a service of this machine."""
        return connect(self.project, self.location)

    def run_dir(self, run: str) -> Path:
        """Return the local folder of a run: its summary, compiled pipeline and log."""
        return self.state_dir / "runs" / run


def default_state_dir() -> Path:
    """Return the folder of all local state: `$TRAINYARD_DIR`, or `.trainyard` here."""
    return Path(os.environ.get(STATE_DIR_VARIABLE, ".trainyard")).absolute()


def check_state_dir(folder: Path) -> None:
    """Check that a folder has local state.

    Raises:
        ConfigError: it does not.
    """
    if not (folder / "vertex").is_dir():
        raise ConfigError(
            f"{folder} has no Trainyard state: nothing was run from there; begin with `trainyard "
            "run`, or give the folder with --state-dir or TRAINYARD_DIR"
        )


def make_state_dir(folder: Path) -> None:
    """Create the folder of local state if missing, and restrict access to its owner.

    Raises:
        ConfigError: it is not a folder, all users may write to it, as to /tmp, another user owns
            it, or its path has a character that Google's components paste into JSON without an
            escape.
    """
    if match := NOT_IN_JSON.search(str(folder.absolute())):
        raise ConfigError(
            f"{str(folder.absolute())!r} has the character {match[0]!r}, which jobs cannot take in "
            'a path; give --state-dir a folder without quotes ("), backslashes, control characters '
            "and bytes that are not UTF-8"
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give --state-dir a folder, or a new name")
    is_new = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(folder)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    if is_new and (above := _open_to_all(folder)):  # once, as an error it would refuse CI's folders
        logger.warning("every user can write to %s, and so replace %s", above, folder)


def _check_owner(folder: Path) -> None:
    status, user = folder.stat(), os.geteuid()
    if status.st_mode & stat.S_ISVTX:
        raise ConfigError(f"{folder} is shared by all users; give --state-dir {folder}/NAME")
    if status.st_uid != user:
        raise ConfigError(
            f"{folder} belongs to the user {status.st_uid}, not to you ({user}), so that its owner "
            "can replace what you run; give --state-dir a folder of your own"
        )


def _open_to_all(folder: Path) -> Path | None:
    """Return the folder above that lets every user replace what is in it; not the sticky /tmp."""
    for above in folder.resolve().parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return above
    return None


def local_target(
    state_dir: Path, *, pipeline_root: str | None = None, data_dir: str | None = None
) -> Target:
    """Return the target for this machine's service, with all state in `state_dir`.

    There, gs://BUCKET is the folder `buckets/BUCKET`.
    """
    return Target(
        project=LOCAL_PROJECT,
        location=DEFAULT_LOCATION,
        pipeline_root=str(local_folder(pipeline_root or str(state_dir / "runs"), state_dir)),
        data_root=str(local_folder(data_dir or str(state_dir / "cache"), state_dir)),
        state_dir=state_dir,
    )


def local_folder(address: str, state_dir: Path) -> Path:
    """Return the absolute path of an address on this machine, gs:// or not."""
    if paths.is_bucket_uri(address):
        return buckets_of(state_dir.absolute()) / address.removeprefix(paths.BUCKET_SCHEME)
    return Path(address).absolute()


def buckets_of(state_dir: Path) -> Path:
    """Return the folder whose folders are the buckets of runs on this machine."""
    return state_dir / "buckets"


def vertex_target(
    state_dir: Path,
    *,
    project: str | None,
    location: str | None,
    pipeline_root: str | None,
    data_dir: str | None = None,
    needs_bucket: bool = True,
) -> Target:
    """Return the target for Vertex AI; missing options come from the environment.

    Raises:
        ConfigError: there is no project or no bucket.
    """
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT")
    if not project:
        raise ConfigError(
            "--on vertex needs a project: give --project, or set GOOGLE_CLOUD_PROJECT"
        )
    root = pipeline_root or os.environ.get("TRAINYARD_PIPELINE_ROOT", "")
    if not paths.is_bucket_uri(root) and (root or needs_bucket):
        raise ConfigError(
            f"--on vertex needs a bucket for the run's files, not {root!r}: give --pipeline-root "
            "gs://BUCKET/FOLDER, or set TRAINYARD_PIPELINE_ROOT"
        )
    return Target(
        project=project,
        location=location or os.environ.get("GOOGLE_CLOUD_REGION") or DEFAULT_LOCATION,
        pipeline_root=root.rstrip("/"),
        data_root=data_dir or "",
        state_dir=state_dir,
    )
