"""Snapshots of users' code that nothing uses any more."""

import json
import shutil
import tempfile
import time
from pathlib import Path

from components.shared.vertex.api import VertexApi
from pipelines.projects.project import NEW_PREFIX, origin_file
from pipelines.resources.kinds import JOB, RUN
from pipelines.resources.names import short_name
from trainer.references import CODE_DIR, SNAPSHOT

# `trainyard submit` copies the code before the service has a record of the run.
JUST_TAKEN_SECONDS = 3600
DESCRIPTIONS = "models/**/workload.json"  # of model versions, below the service's folder


def unused_snapshots(
    api: VertexApi, state_dir: Path, *, without: frozenset[str] = frozenset()
) -> list[Path]:
    """Return the snapshots that no job, schedule or model version names, and no run but `without`.

    Those runs are about to be removed.
    """
    snapshots = [
        path
        for path in sorted((state_dir / CODE_DIR).glob("*"))
        if SNAPSHOT.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    ]
    old = [path for path in snapshots if time.time() - path.stat().st_mtime > JUST_TAKEN_SECONDS]
    if not old:
        return []
    runs = api.list_resources(RUN.collection, readMask="name,runtimeConfig")
    users = [run for run in runs if _name(run) not in without]
    for collection in (JOB.collection, "schedules"):
        users += api.list_resources(collection)
    texts = [json.dumps(user) for user in users]
    texts += [path.read_text() for path in (state_dir / "vertex").glob(DESCRIPTIONS)]
    return [path for path in old if not any(path.name in text for text in texts)]


def remove_snapshots(state_dir: Path, snapshots: list[Path]) -> None:
    """Remove snapshots, and the remains of interrupted copies."""
    root = state_dir / CODE_DIR
    for path in root.glob(f"{NEW_PREFIX}*"):
        if time.time() - path.stat().st_mtime > JUST_TAKEN_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
    for snapshot in snapshots:  # renamed first, so that no run finds half of one
        removed = Path(tempfile.mkdtemp(prefix=NEW_PREFIX, dir=root))
        snapshot.rename(removed / snapshot.name)
        origin_file(snapshot).unlink(missing_ok=True)
        shutil.rmtree(removed, ignore_errors=True)


def _name(run: dict[str, object]) -> str:
    return short_name(str(run["name"]))
