"""The process that runs a script up to its `fit`, and what it takes over for a workload."""

import json
import logging
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import pyarrow as pa
import pyarrow.parquet as pq

from components.prepare_examples.errors import DataError
from pipelines.projects.literals import Source, fill, literal, quoted, wrapped
from pipelines.projects.user_code import running
from trainer import Json

TIMEOUT_SECONDS = 600.0
COLUMNS, RESULT = "columns.parquet", "result.json"
VALUES, WEIGHTS = "values.json", "given.weights.h5"
REMARK = "Model and settings are from {}, {}; it is not used.\n"
WIDTH = 96  # of a line within a function
MODEL = '''

{definitions}def model(inputs{settings}):
    """Return the model of {file} {purpose}."""
{lines}

'''

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class RecordedScript:
    """A script that was run up to its `fit`.

    Attributes:
        path: of the script; it is not needed any more.
        result: what is taken over, see `pipelines.projects.scripts.written`.
        weights: a file of weights that the script gave its model.
    """

    path: Path
    result: Json
    weights: bytes = b""

    @property
    def is_function(self) -> bool:
        """True if a function of the script makes the model; the script's rows are ignored."""
        return "direct" in self.result

    @property
    def has_columns(self) -> bool:
        """True if the model gets the columns of a table as they are."""
        return "columns" in self.result

    @property
    def combines(self) -> bool:
        """True if the model gets all inputs as one tensor."""
        return bool(self.result.get("combines"))

    @property
    def dropped(self) -> dict[str, int]:
        """The columns without which the script drops a row, with the number of such rows."""
        columns = self.result.get("columns", ())
        return {item["name"]: item["num_dropped"] for item in columns if item["num_dropped"]}

    @property
    def train(self) -> Mapping[str, int]:
        """The settings of the training."""
        settings: dict[str, int] = self.result["train"]
        return settings if "batch_size" in settings else {}

    @property
    def notes(self) -> list[str]:
        """Notes on the changes to the script and on its parts that are left out, a line each."""
        after = ", ".join(self.result["after"])
        skipped = [f"{after}: not taken over, as all that follows the first fit"] if after else []
        dropped = [
            f"rows without {name} are left out ({count:,}), as the script does"
            for name, count in self.dropped.items()
        ]
        notes = (*self.result["notes"], *dropped, *skipped)
        return [f"{self.path.name}: {note}" for note in notes]

    @property
    def files(self) -> Mapping[str, str | bytes]:
        """The files beside workload.py, by name."""
        values = self.result["values"]
        return {
            **({VALUES: json.dumps(values, ensure_ascii=False, indent=1)} if values else {}),
            **({WEIGHTS: self.weights} if self.weights else {}),
        }

    @property
    def imports(self) -> Source:
        """The imports of the model, with an empty line after them."""
        has_files = bool(self.result["values"] or self.weights)
        own = [line for line in self.result["imports"] if line != "import keras"]
        lines = [
            *(["import json"] if self.result["values"] else []),
            *(["from pathlib import Path", ""] if has_files else []),
            "import keras",
            *own,
        ]
        return Source("\n".join(lines) + "\n\n")

    def adapter(self, combined: Source) -> Source:
        """Return the source that defines `model`.

        `combined` is an expression of all inputs as one tensor.
        """
        read = f'VALUES = json.loads(Path(__file__).with_name("{VALUES}").read_text("utf-8"))'
        definitions = [*([read] if self.result["values"] else []), *self.result["definitions"]]
        source = "".join(f"{definition}\n\n\n" for definition in definitions)
        if direct := self.result.get("direct"):
            named = "" if direct == "model" else f"model = {direct}"
            return Source(f"\n\n{source}{named}".rstrip("\n") + "\n\n")
        lines = [wrapped(line, WIDTH) for line in (*self.result["model"], *self.result["end"])]
        if self.combines:
            lines.insert(0, f"combined = {combined}")
        text = MODEL.format(
            file=quoted(self.path.name)[1:-1],
            definitions=source,
            lines=textwrap.indent("\n".join(lines), "    "),
            settings=f", *, labels{self.result['settings']}" if self.is_function else "",
            purpose="for these inputs" if self.combines else "for the file's own values",
        )
        return Source(text)

    @property
    def remark(self) -> Source:
        """The line about the script for the head of workload.py."""
        name, line = self.path.name, self.result["fit_line"]
        origin = f"at its fit in line {line}"
        if self.is_function:
            origin = f"of its function in line {self.result['function_line']}"
        return fill(REMARK, name, origin)

    @property
    def arguments(self) -> Source:
        """The further arguments of the workload, a line each."""
        line = f"  # fit, line {self.result['fit_line']}"
        is_raw = self.result.get("is_raw", True)
        lines = ["    raw_inputs=True,"] if is_raw else []
        if weights := self.result.get("class_weights"):
            pairs = ((literal(_key(value)), weight) for value, weight in weights)
            shown = ", ".join(f"{key}: {weight:.7g}" for key, weight in pairs)
            lines.append(f"    class_weights={{{shown}}},{line}")
        if weight := self.result.get("weight"):
            lines.append(f"    weight={literal(weight)},{line}")
        if callbacks := self.result["callbacks"]:
            shown = "\n".join(f"{wrapped(callback, WIDTH - 4)}," for callback in callbacks)
            lines += [f"    callbacks=[{line}", textwrap.indent(shown, " " * 8), "    ],"]
        return Source("".join(f"{line}\n" for line in lines))


def record_table(
    path: Path, columns: Mapping[str, pa.Array], originals: Mapping[str, str], *, label: str
) -> RecordedScript:
    """Run a script up to its `fit` and compare what it gets with a table.

    The columns are numbers or texts by their declared names; `originals` has their names in the
    file.

    Raises:
        DataError: the script has faults; all are named, each with its line.
    """
    metadata = {b"originals": json.dumps(dict(originals)).encode()}
    table = pa.table(dict(columns)).replace_schema_metadata(metadata)
    return _record(path, ["--label", label], table)


def record_images(path: Path, classes: Sequence[str]) -> RecordedScript:
    """Run a script that trains on images of these classes up to its `fit`.

    Raises:
        DataError: the script has faults; all are named, each with its line.
    """
    return _record(path, ["--classes", *classes])


def record_function(path: Path) -> RecordedScript:
    """Run a script up to its `fit`, and take its function that makes the model.

    Raises:
        DataError: the script has faults; all are named, each with its line.
    """
    return _record(path, [])


def _record(path: Path, arguments: Sequence[str], table: pa.Table | None = None) -> RecordedScript:
    logger.info(
        "running %s in its folder, up to its first fit, which is recorded instead of done …", path
    )
    with tempfile.TemporaryDirectory(prefix="trainyard-script-") as name:
        folder = Path(name)
        if table is not None:
            pq.write_table(table, folder / COLUMNS)
        command = ["pipelines.projects.scripts", str(path.resolve()), str(folder), *arguments]
        result = _run([*command, "--current", str(path.resolve().parent)], path, folder)
        if "notes" not in result and Path.cwd() != path.resolve().parent:
            logger.info("it fails there; running it in the current folder …")
            current = _run([*command, "--current", str(Path.cwd())], path, folder)
            result = current if "notes" in current else result
        weights = folder / WEIGHTS
        if result["faults"]:
            raise DataError("\n".join(_describe(path, fault) for fault in result["faults"]))
        return RecordedScript(path, result, weights.read_bytes() if weights.exists() else b"")


def _describe(path: Path, fault: Json) -> str:
    line = f":{fault['line']}" if fault["line"] else ""
    return f"{path}{line}: {fault['message']}"


def _run(command: Sequence[str], path: Path, folder: Path) -> Json:
    """Run the process of a script, and return its result.

    Raises:
        DataError: it does not end in time, or ends without a result.
    """
    with running(command, MPLBACKEND="Agg") as script:
        try:
            script.process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise DataError(
                f"{script.current_line(str(path.resolve())) or path}: still running after"
                f" {TIMEOUT_SECONDS:g} s, before its first fit; let it read less data"
            ) from error
        if not (folder / RESULT).exists():
            code, last = script.process.returncode, " ".join(script.last_lines().split())
            raise DataError(f"{path}: its process ended with code {code}: {last}")
    result: Json = json.loads((folder / RESULT).read_text())
    (folder / RESULT).unlink()
    return result


def _key(value: object) -> object:
    """Return a value of a label; whole numbers without a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
