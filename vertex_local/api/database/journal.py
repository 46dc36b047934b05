"""Check of SQLite's journal after a kill: SQLite drops all changes after a damage without an error.

The index beside the journal (`vertex.db-shm`) is memory that outlives a killed process. It says how
many frames were committed, so their number after the recovery shows a loss.
https://www.sqlite.org/walformat.html
"""

import struct
from dataclasses import dataclass
from pathlib import Path

HEADER = "=12xBxxxI4x8xI4x8x"  # is_initialized, frames, the first salt; two copies of 48 bytes
NUM_BACKFILLED_AT, NUM_BYTES = 96, 100


@dataclass(frozen=True)
class Index:
    """Numbers of a journal's index: of committed frames, and of those also in the database."""

    salt: int  # changes with each reset of the journal
    num_frames: int
    num_backfilled: int


def read_index(path: Path) -> Index | None:
    """Return the index of a database's journal; None if there is none."""
    try:
        with path.with_name(f"{path.name}-shm").open("rb") as file:
            data = file.read(NUM_BYTES)
    except FileNotFoundError:
        return None
    size = struct.calcsize(HEADER)
    if len(data) < NUM_BYTES or data[:size] != data[size : 2 * size]:
        return None
    is_initialized, num_frames, salt = struct.unpack_from(HEADER, data)
    if not is_initialized:
        return None
    (num_backfilled,) = struct.unpack_from("=I", data, NUM_BACKFILLED_AT)
    return Index(salt, num_frames, num_backfilled)


def has_lost_changes(before: Index | None, after: Index | None) -> bool:
    """Return whether the recovery of a journal, between two indexes, has lost committed changes."""
    if before is None or after is None:
        return False
    if after.num_frames and after.salt == before.salt:
        return after.num_frames < before.num_frames
    # Another journal: a newer one, if the index is older than a power failure.
    return after.num_frames == 0 and before.num_backfilled < before.num_frames
