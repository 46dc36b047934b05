"""Quarantined rows: the reason for each, their numbers by column, and the limit on their share."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError, Refuse
from components.prepare_examples.tfrecords.records import record_file
from trainer import Json

NUM_COLUMNS, NUM_ROWS = 3, 3  # shown in an error
REASON = itemgetter("reason")


@dataclass
class BadRows:
    """The rows of a block to quarantine, each with the column and reason found first."""

    reasons: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(
        self,
        is_bad: Any,
        column: str,
        describe: Callable[[int], str],
        *,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Add the rows of bad values of a column; `rows` has the row of each value of lists."""
        for place in np.flatnonzero(is_bad).tolist():
            self.put(place if rows is None else int(rows[place]), column, describe(place))

    def put(self, row: int, column: str, reason: str) -> None:
        """Add a row, unless it is bad already."""
        self.reasons.setdefault(row, (column, reason))


def manifest_entry(result: Json) -> Json:
    """Return the manifest's entry: the number of rows by column, and the side files."""
    return {"by_column": result["tally"]["quarantined"], "files": result["quarantine"]}


def write_side_file(path: Path, entries: Sequence[Json]) -> list[Json]:
    """Write a line for each bad row; return the file's entry for the manifest, if there is any."""
    if not entries:
        return []
    with record_file(path, compression="") as file:
        file.write(json_lines(entries))
    return [{"file": path.name, "num_rows": len(entries), **file.digests()}]


def json_lines(rows: Iterable[Json]) -> bytes:
    """Return a line for each row, in JSON."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def by_column(counts: Mapping[str, int]) -> str:
    """Return the number of rows of each column as a text, the largest first."""
    return ", ".join(f"{_shown(name)} {count:,}" for name, count in ranked(counts))


def check_share(
    result: Json,
    folder: Path,
    *,
    max_share: float,
    refuse: Refuse,
    what: str = "rows",
    explained: Callable[[Json], str] = REASON,
) -> None:
    """Refuse more quarantined rows than a share of all: 0 allows no row, 1 all.

    The error names the worst columns with reasons, values and rows, from the side files.
    `explained` returns the reason of the first bad row of a column, perhaps with a remedy.
    """
    num_read, entry = result["tally"]["read"], manifest_entry(result)
    counts = entry["by_column"]
    num_bad = sum(counts.values())
    if num_bad <= max_share * num_read:
        return
    worst = _worst(entry, folder, explained)
    parts = [
        DataError(
            f"{_shown(name)}: {counts[name]:,} of {num_read:,} {what} are bad ({rows});"
            " correct the declaration or the files, or raise max_quarantine",
            about=name,
        )
        for name, rows in worst.items()
    ]
    refuse(
        DataError(
            f"{num_bad:,} of {num_read:,} {what} ({num_bad / num_read:.1%}) are bad, and "
            f"max_quarantine is {max_share:.1%}: {_listed(worst, counts)}; correct"
            f" the files, or raise max_quarantine to continue without these {what}",
            parts=parts,
        )
    )


def worst_columns(entry: Json, folder: Path, explained: Callable[[Json], str] = REASON) -> str:
    """Return the columns with most quarantined rows, with reasons, values and rows, as a text.

    `entry` is the manifest's, see `manifest_entry`.
    """
    return _listed(_worst(entry, folder, explained), entry["by_column"])


def _listed(worst: Json, counts: Json) -> str:
    return "; ".join(f"{_shown(name)} {counts[name]:,} ({rows})" for name, rows in worst.items())


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the number of rows of each column, the largest first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _shown(column: str) -> str:
    return column or "number of fields"


def _worst(entry: Json, folder: Path, explained: Callable[[Json], str]) -> dict[str, str]:
    """Return the first rows of the worst columns as texts: file, row, and reason with the value."""
    counts = dict(ranked(entry["by_column"])[:NUM_COLUMNS])
    first: dict[str, list[str]] = {name: [] for name in counts}
    named: dict[str, str] = {}
    num_left = sum(min(count, NUM_ROWS) for count in counts.values())
    for file in entry["files"]:
        with (folder / file["file"]).open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                column, rows = row["column"], first.get(row["column"])
                if rows is not None and len(rows) < NUM_ROWS:
                    path = "" if named.get(column) == row["file"] else row["file"]
                    named[column] = row["file"]
                    row_text = f"row {row['row']}:" if "row" in row else ""
                    reason = row["reason"] if rows else explained(row)
                    rows.append(" ".join(filter(None, [path, row_text, reason])))
                    num_left -= 1
                if not num_left:
                    break
    return {name: "; ".join(rows) for name, rows in first.items()}
