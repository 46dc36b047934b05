"""Tables as people have them: what `new` writes is read alike by check, run and requests.

Sixty tables, always the same; with TABLES=5000 in the environment many, and other ones.
"""

import base64
import contextlib
import dataclasses
import json
import os
import random
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.runs import find_run
from pipelines.projects.starter.folder import NewFolder, write_folder
from pipelines.projects.starter.tables import start_table
from tests.support.data.ordinary_tables import (
    AMOUNT,
    DATES,
    FILES,
    KINDS,
    LABEL,
    LABELS,
    MESSES,
    NAMES,
    NUM_ROWS,
    NUMBERS,
    Column,
    Table,
    write_table,
)
from tests.support.data.prepared import quarantined
from tests.support.data.trials import prepared_by
from trainer.serving.http.bodies import parse_instances
from trainer.workloads import Number, Text, Timestamp, Workload, load_workload
from trainer.workloads.description import describe, read_description

NUM_TABLES = int(os.environ.get("TABLES", "0"))
BAD = "bad"

columns = st.lists(
    st.builds(
        Column, st.sampled_from(list(KINDS)), st.sampled_from(MESSES), st.sampled_from(NAMES)
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda column: column.name,
)


def make_table(columns: list[Column], label: str, seed: int) -> Table:
    chance = random.Random(seed)
    table: Table = {column.name: column.cells(chance) for column in columns}
    table[AMOUNT] = [f"{row + chance.random():.4f}" for row in range(NUM_ROWS)]
    table[LABEL] = [LABELS[label](chance) for _ in range(NUM_ROWS)]
    return table


@pytest.mark.timeout(6 * 3600 if NUM_TABLES else 600)
@settings(
    max_examples=NUM_TABLES or 60,
    deadline=None,
    phases=(Phase.generate,),  # the tables are small, and each takes a while
    derandomize=not NUM_TABLES,
    suppress_health_check=list(HealthCheck),
)
@given(
    columns=columns,
    label=st.sampled_from(list(LABELS)),
    files=st.lists(st.sampled_from(FILES), min_size=2, max_size=2, unique=True),
    seed=st.integers(0, 10**6),
)
def test_what_new_writes_is_read_alike_by_check_run_and_requests(columns, label, files, seed):
    table = make_table(columns, label, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second = (
            write_table(folder / f"table{number}", kind, table, columns)
            for number, kind in enumerate(files)
        )
        start = started(first, table)
        if start is None:
            return
        write_folder(folder / "own", start)
        workload = load_workload(str(folder / "own"))
        check_columns(workload, start, columns)
        options = find_run(str(folder / "own")).prepare_options()
        problems = prepared_by(folder / "own", options, folder / "check").errors
        refusal = run(folder / "own", dataclasses.replace(options, files=(second,)), folder / "run")
        assert bool(problems) == bool(refusal), (problems, refusal)
        if refusal:
            assert LABEL in refusal or "max_quarantine" in refusal or "split would be" in refusal
            return
        examples = [records(folder / name) for name in ("check", "run")]
        assert examples[0] == examples[1], "another kind of file gives other bytes"
        check_cells(workload, columns, table, examples[0], quarantined(folder / "run"))
        check_requests(workload, columns, table, examples[0])


def started(path: str, table: Table) -> NewFolder | None:
    """Return the content of a folder for a table; None if it is refused by a column's name."""
    try:
        return start_table([path], LABEL)
    except DataError as error:
        if any(repr(name) in str(error) for name in table):
            return None
        raise


def check_columns(workload: Workload, start: NewFolder, columns: list[Column]) -> None:
    """Check that each column is a feature, or left out with a note."""
    features = by_column(workload, columns)
    for column in columns:
        said = rf"(.*, )?\s*{re.escape(column.name.strip())}\s*(, .*)?: "
        is_said = any(re.match(said, note) for note in start.notes)
        assert column.name in features or is_said, (column, start.notes)


def run(own: Path, options: PrepareOptions, folder: Path) -> str:
    """Prepare the examples in a folder as a run does; return why that is refused, or ""."""
    options = dataclasses.replace(options, num_shards={"train": 1}, compression="none")
    try:
        prepare(str(own), output_dir=folder, data_dir=own, options=options)
    except DataError as error:
        return str(error)
    return ""


def records(folder: Path) -> dict[str, list[bytes]]:
    """Return the records of each file of examples."""
    found = {}
    for path in folder.glob("*.tfrecord"):
        content, at = path.read_bytes(), 0
        found[path.name] = []
        while at < len(content):
            size = int.from_bytes(content[at : at + 8], "little")
            found[path.name].append(content[at + 12 : at + 12 + size])
            at += size + 16
    return found


def values_of(record: bytes) -> dict[str, list[Any]]:
    """Return the values of each feature of an example that is not missing."""
    features = tf.train.Example.FromString(record).features.feature
    kinds = {name: feature.WhichOneof("kind") for name, feature in features.items()}
    return {name: list(getattr(features[name], kind).value) for name, kind in kinds.items() if kind}


def amount_of(record: bytes) -> np.float32:
    """Return the number that tells the row of an example."""
    return np.float32(values_of(record)[AMOUNT][0])


def by_column(workload: Workload, columns: list[Column]) -> dict[str, Any]:
    """Return the features of a workload by the columns of the files."""
    features = {feature.name: feature for feature in workload.used}
    by_field = {field: features.get(name) for field, name in workload.aliases.items()} | features
    names = [column.name for column in columns]
    return {name: by_field[name.strip()] for name in names if by_field.get(name.strip())}


def check_cells(
    workload: Workload,
    columns: list[Column],
    table: Table,
    examples: dict[str, list[bytes]],
    bad_rows: list[Any],
) -> None:
    """Check that each cell is used, missing, or counted as bad with its row."""
    features = by_column(workload, columns)
    by_amount = {
        amount_of(record): values_of(record) for in_file in examples.values() for record in in_file
    }
    bad = {entry["row"] - 1: entry["column"] for entry in bad_rows}
    for row, amount in enumerate(table[AMOUNT]):
        cells = {
            features[one.name].name: expected_value(features[one.name], one, table[one.name][row])
            for one in columns
            if one.name in features
        }
        wrong = [name for name, value in cells.items() if value == BAD]
        values = by_amount.pop(np.float32(amount), None)
        assert (values is None) == bool(wrong) == (row in bad), (row, wrong, values)
        assert not wrong or bad[row] in wrong
        for name, value in cells.items() if values is not None else ():
            assert values.get(name) == value, (row, name)
    assert not by_amount


def expected_value(feature: Any, column: Column, text: str) -> list[Any] | str | None:
    """Return the stored value of a cell, None for a missing one, or BAD."""
    text = text.strip()
    if text in ("", *feature.missing):
        return None
    try:
        if isinstance(feature, Number):
            return [float(np.float32(NUMBERS.get(column.kind, float)(text)))]
        if isinstance(feature, Timestamp):
            moment = datetime.strptime(text, DATES[column.kind]).replace(tzinfo=UTC)
            return [int(moment.timestamp())]
    except ValueError:
        return BAD
    if not isinstance(feature, Text) and feature.separator:
        return [part.encode() for part in text.split(feature.separator)]
    return [(text.lower() if text.lower() in ("true", "false") else text).encode()]


def requests_by_amount(
    workload: Workload, columns: list[Column], table: Table
) -> dict[np.float32, dict[str, Any]]:
    """Return each row as a request has it, by its amount; every other one as a typed file has."""
    features = by_column(workload, columns)
    typed = {one.name: one.typed(table[one.name]) for one in columns}
    found = {}
    for row, amount in enumerate(table[AMOUNT]):
        found[np.float32(amount)] = instance = {AMOUNT: float(amount)}
        for name, feature in features.items():
            text, value = table[name][row], typed[name][row]
            if isinstance(feature, Number):  # plain ones are no texts in requests
                with contextlib.suppress(ValueError):
                    text = value = float(text)
            is_typed = row % 2 and isinstance(value, float | bool | list)  # a whole one is a text
            instance[name] = None if text == "" else value if is_typed else text
    return found


def received(instances: list[Any]) -> list[Any]:
    """Return the instances of a request as the server gets them."""
    return parse_instances(json.dumps({"instances": instances}).encode()).instances


def check_requests(
    workload: Workload, columns: list[Column], table: Table, examples: dict[str, list[bytes]]
) -> None:
    """Check that the server reads a row in a request as the row's example."""
    stored = [record for in_file in examples.values() for record in in_file]
    rows = requests_by_amount(workload, columns, table)
    described = read_description(describe(workload))  # as the server has it
    served = described.parse_instances(received([rows[amount_of(record)] for record in stored]))
    encoded = [{"b64": base64.b64encode(record).decode()} for record in stored]
    for name, values in workload.parse_examples(encoded).items():
        np.testing.assert_array_equal(values, served[name], err_msg=name)
