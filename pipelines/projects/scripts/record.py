"""The process that runs a script up to its `trainyard.fit`, and what a workload takes over."""

import json
import logging
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyarrow.parquet as pq

from components.prepare_examples.errors import DataError
from pipelines.projects.literals import SourceText, fill
from pipelines.projects.user_code import running
from trainer import Json

TIMEOUT_SECONDS = 600.0
COLUMNS, TOLD, RESULT = "columns.parquet", "told.json", "result.json"
VALUES, WEIGHTS = "values.json", "given.weights.h5"
REMARK = "Model and settings are from {}, at its fit in line {}; it is not used.\n"

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True, kw_only=True)
class RecordedScript:
    """A script that was run up to its `trainyard.fit`.

    Attributes:
        path: of the script; it is not needed any more.
        line: of its fit.
        imports: of the model, with an empty line after them.
        adapter: the source that defines `model`.
        arguments: further ones of the workload, a line each.
        label: its kind, and the values of its classes in order.
        train: settings of the training.
        notes: on the changes to the script and on its parts that are left out.
        label_column: as the script calls it.
        columns: of a table, that the model gets; each with the number of rows that lack it, if the
            script drops these.
        size: of images.
        channels: of images.
        files: beside workload.py, by name.
    """

    path: Path
    line: int
    imports: SourceText
    adapter: SourceText
    arguments: SourceText
    label: Json
    train: Mapping[str, int]
    notes: Sequence[str]
    label_column: str = ""
    columns: Sequence[Json] = ()
    size: Sequence[int] = ()
    channels: int = 0
    files: Mapping[str, str | bytes] = field(default_factory=dict)

    @property
    def num_dropped(self) -> int:
        """The number of rows that the script drops, as they lack a column."""
        return sum(own["num_dropped"] for own in self.columns)

    @property
    def remark(self) -> SourceText:
        """The line about the script for the head of workload.py."""
        return fill(REMARK, self.path.name, self.line)


def record(path: Path, told: Json, columns: Mapping[str, pa.Array] | None = None) -> RecordedScript:
    """Run a script up to its fit, and check what it gets against a table or a folder of images.

    Args:
        path: of the script.
        told: `label` and `kind` of the command, "" for the script's. Of a table `originals`, its
            columns' names in the file; `numbers` of the rows there, from 1; `is_whole`, False if
            it has more rows. Of images their folder, `images`, and the number of each class.
        columns: of a table, numbers or texts by their declared names.

    Raises:
        DataError: the script cannot be taken over; names its line.
    """
    logger.info("running %s in the current folder, up to trainyard.fit …", path)
    with tempfile.TemporaryDirectory(prefix="trainyard-script-") as name:
        folder = Path(name)
        if columns is not None:
            pq.write_table(pa.table(dict(columns)), folder / COLUMNS)
        (folder / TOLD).write_text(
            json.dumps({"label": "", "images": "", **told, "script": str(path.resolve())})
        )
        result = _run(path, folder)
        if fault := result.get("fault"):
            line = f":{result['line']}" if result["line"] else ""
            raise DataError(f"{path}{line}: {fault}")
        files = {
            p.name: p.read_bytes() for p in map(folder.joinpath, (VALUES, WEIGHTS)) if p.exists()
        }
    texts: dict[str, Any] = {
        name: SourceText(result.pop(name)) for name in ("imports", "adapter", "arguments")
    }
    notes = [f"{path.name}: {note}" for note in result.pop("notes")]
    return RecordedScript(path=path, notes=notes, files=files, **texts, **result)


def _run(path: Path, folder: Path) -> dict[str, Any]:
    """Run the process of a script, and return its result.

    Raises:
        DataError: it does not end in time, or ends without a result.
    """
    with running(["pipelines.projects.scripts", str(folder)], MPLBACKEND="Agg") as script:
        try:
            script.process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise DataError(
                f"{script.current_line(str(path.resolve())) or path}: still running after"
                f" {TIMEOUT_SECONDS:g} s, before trainyard.fit; let it read less data"
            ) from error
        if not (folder / RESULT).exists():
            code, last = script.process.returncode, " ".join(script.last_lines().split())
            raise DataError(f"{path}: its process ended with code {code}: {last}")
    result: dict[str, Any] = json.loads((folder / RESULT).read_text())
    return result
