"""`trainyard cache clear`: remove entries of the step cache, so that steps are executed again."""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from pipelines.resources.table import Table
from trainer import Json
from trainer.errors import ConfigError, did_you_mean

MEGABYTE = 1e6
UNKNOWN = "-"  # in an entry that is damaged or of an earlier version


@dataclass(frozen=True, kw_only=True)
class CachedStep:
    """An entry of the step cache: one execution of a step, and the files of its outputs."""

    entry: Path
    pipeline: str
    step: str
    files: tuple[str, ...]

    @property
    def num_bytes(self) -> int:
        """Return the size of the outputs that exist."""
        total = 0
        for file in self.files:
            with contextlib.suppress(OSError):
                total += Path(file).stat().st_size
        return total


def step_cache(state_dir: Path) -> Path:
    """Return the folder of the step cache: a JSON file for each execution of a step."""
    return state_dir / "vertex" / "step_cache"


def read_entry(entry: Path) -> Json:
    """Return the content of an entry, {} if it is damaged or missing."""
    try:
        content = json.loads(entry.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_dangling(entry: Json) -> bool:
    """Return whether an output of an entry is missing; the folder of a pending one exists."""
    folders = (Path(path).parent for path in entry.get("pending", ()))
    files = map(Path, entry.get("files", ()))
    return not all(path.exists() for path in (*files, *folders))


def cached_steps(state_dir: Path) -> list[CachedStep]:
    """Return all entries, by the names of pipeline and step."""
    entries = [
        CachedStep(
            entry=entry,
            pipeline=str(content.get("pipeline", UNKNOWN)),
            step=str(content.get("step", UNKNOWN)),
            files=tuple(content.get("files", ())),
        )
        for entry in step_cache(state_dir).glob("*.json")
        for content in [read_entry(entry)]
    ]
    return sorted(entries, key=lambda cached: (cached.pipeline, cached.step, cached.entry))


def clear_cache(state_dir: Path, *, step: str = "") -> list[CachedStep]:
    """Remove the entries of a step, or all; return them.

    Raises:
        ConfigError: no entry is of this step; names the steps.
    """
    cached = cached_steps(state_dir)
    steps = sorted({each.step for each in cached} - {UNKNOWN})
    if step and step not in steps:
        allowed = f"it has {', '.join(steps)}" if steps else "it is empty"
        raise ConfigError(
            f"STEP is {step!r}, which is not in the cache: {allowed}{did_you_mean(step, steps)}"
        )
    removed = [each for each in cached if step in ("", each.step)]
    for each in removed:
        each.entry.unlink(missing_ok=True)
    return removed


def cache_table(removed: list[CachedStep]) -> Table:
    """Return a row for each entry: its step, pipeline, the number and size of its files."""
    rows = [
        (each.step, each.pipeline, f"{len(each.files):,}", f"{each.num_bytes / MEGABYTE:,.1f}")
        for each in removed
    ]
    return Table(("STEP", "PIPELINE", "FILES", "MB"), rows)
