"""Kinds of files that people give as a table: read as the same rows in CSV, or named."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import read_records
from components.prepare_examples.tables.reading import typed
from components.prepare_examples.tables.reading.kinds import encoding_of, file_kind

NUM_ROWS = 90
Rows = list[dict[str, Any]]


FEATURES = (
    'Number("age"), Category("town"), Category("tags", separator="|"), Number("point", length=2),'
    ' Timestamp("at")'
)


def declare(more: str = "") -> str:
    """Return the declaration of the rows."""
    return f'Table([{FEATURES}], label=Binary("left", positive="yes"), key="id", {more})'


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_batches_of_long_lists_have_few_rows(tmp_path, monkeypatch, kind):
    rows = [{"x": [float(at)] * 100, "y": "a"} for at in range(30)]
    path = str(tmp_path / "data")
    if kind == "parquet":
        table = pa.Table.from_pylist(rows)
        parquet.write_table(table, path, use_dictionary=False, compression="none")
    else:
        Path(path).write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(typed, "BATCH_BYTES", 8 * 1_010)
    monkeypatch.setattr(typed, "BATCH_VALUES", 1_010)
    read = typed.parquet_batches if kind == "parquet" else typed.json_batches
    batches = list(read(path))
    assert max(batch.num_rows for batch in batches) <= 10
    assert [float(row[0]) for batch in batches for row in batch["x"].to_pylist()] == list(range(30))


def make_rows() -> Rows:
    return [
        {
            "id": f"k{at}",
            "age": [31.5, 4, None][at % 3],
            "town": ["Köln", "a;b", 'say "hi"', "two\nlines", None][at % 5],
            "tags": [["x", "y"], ["z"], []][at % 3],
            "point": [at / 4, -1.5],
            "at": f"2026-0{1 + at % 9}-{1 + at % 28:02d}",
            "left": ["yes", "no"][at % 2],
        }
        for at in range(NUM_ROWS)
    ]


def as_csv(rows: Rows, *, has_header: bool = True, **style) -> str:
    text = io.StringIO()
    writer = csv.writer(text, **{"lineterminator": "\n", **style})
    if has_header:
        writer.writerow(rows[0])
    for row in rows:
        point = ",".join(map(str, row["point"]))
        writer.writerow({**row, "tags": "|".join(row["tags"]), "point": point}.values())
    return text.getvalue()


def as_lines(rows: Rows) -> bytes:
    """Return JSON lines without the missing values, as BigQuery exports them."""
    present = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in present).encode()


@pytest.fixture
def same(tmp_path, run):
    """Assert that files give the examples of plain CSV with the same rows."""

    def check(*files: Path, rows: Rows, more: str = "", **options) -> None:
        plain = tmp_path / "plain.csv"
        plain.write_text(as_csv(rows), encoding="utf-8")
        found = run(declare(more), *files, **options)
        assert "quarantined" not in found.rows
        assert found.shards == run(declare(), plain, **options).shards

    return check


FORMS: dict[str, Callable[[Rows], bytes]] = {
    "UTF-16 as Excel writes it": lambda rows: as_csv(rows, delimiter="\t").encode("utf-16"),
    "UTF-16 without a mark": lambda rows: as_csv(rows).encode("utf-16-be"),
    "gzipped UTF-16": lambda rows: gzip.compress(as_csv(rows).encode("utf-16")),
    "gzip without .gz": lambda rows: gzip.compress(as_csv(rows, delimiter="|").encode("utf-8-sig")),
    "remarks before the header": lambda rows: b"# exported, by me\n#\n" + as_csv(rows).encode(),
    "remarks with slashes": lambda rows: b"// a\n//\n\n" + as_csv(rows).encode(),
    "Excel's separator": lambda rows: b"sep=;\r\n" + as_csv(rows, delimiter=";").encode(),
    "blank lines": lambda rows: (
        as_csv(rows, lineterminator="\r\n\r\n").encode("utf-8-sig").rstrip()
    ),
    "JSON lines": as_lines,
    "gzipped JSON lines": lambda rows: gzip.compress(as_lines(rows)),
    "a JSON array": lambda rows: json.dumps(rows, indent=2).encode("utf-8-sig"),
    "a JSON array in UTF-16": lambda rows: json.dumps(rows).encode("utf-16"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_other_kinds_of_files_give_the_examples_of_the_same_csv(tmp_path, same, form):
    (tmp_path / "rows").write_bytes(form(make_rows()))
    same(tmp_path / "rows", rows=make_rows())


@pytest.mark.parametrize("max_examples", [0, 40])
def test_files_of_several_kinds_are_one_table(tmp_path, same, max_examples):
    rows = make_rows()
    (tmp_path / "a.jsonl").write_bytes(as_lines(rows[:30]))
    (tmp_path / "b.txt").write_bytes(as_csv(rows[30:60], delimiter=";").encode("utf-16"))
    lists = {
        "tags": pa.array([row["tags"] for row in rows[60:]], pa.large_list(pa.string())),
        "point": pa.array([row["point"] for row in rows[60:]], pa.list_(pa.float32(), 2)),
    }
    table = pa.Table.from_pylist(rows[60:]).to_pydict() | lists
    parquet.write_table(pa.table(table), tmp_path / "c.parquet")
    files = (tmp_path / "a.jsonl", tmp_path / "b.txt", tmp_path / "c.parquet")
    same(*files, rows=rows, max_examples=max_examples)


def test_lines_may_end_as_on_old_macintoshes(tmp_path, same):
    rows = [{**row, "town": (row["town"] or "").replace("\n", " ")} for row in make_rows()]
    (tmp_path / "mac.csv").write_bytes(as_csv(rows, lineterminator="\r").encode())
    same(tmp_path / "mac.csv", rows=rows)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_names_of_columns_may_be_declared(tmp_path, same, encoding):
    content = as_csv(make_rows(), has_header=False, delimiter=";")
    (tmp_path / "bare.csv").write_bytes(content.encode(encoding))
    same(tmp_path / "bare.csv", rows=make_rows(), more=f"header={list(make_rows()[0])},")


@pytest.mark.parametrize(
    ("delimiter", "names"),
    [(";", ("age", '"age,\nin years"', "age, in years")), (",", ("id", "#id", "#id"))],
)
def test_a_header_may_have_any_signs(tmp_path, same, delimiter, names):
    name, header, alias = names
    text = as_csv(make_rows(), delimiter=delimiter).replace(name, header, 1)
    (tmp_path / "excel.csv").write_text(text)
    same(tmp_path / "excel.csv", rows=make_rows(), more=f'aliases={{"{alias}": "{name}"}},')


def test_a_value_of_json_that_does_not_fit_is_quarantined_with_its_row(tmp_path, run):
    rows = make_rows()
    rows[40]["age"] = "many"
    (tmp_path / "rows.jsonl").write_bytes(as_lines(rows))
    [entry] = run(declare(), tmp_path / "rows.jsonl").quarantine
    assert (entry["row"], entry["column"], "'many'" in entry["reason"]) == (41, "age", True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text.replace(b"\n{", b"\n[1]\n{", 1), "line 2: '1' is no object|line 2"),
        (lambda text: text[:-9], f"line {NUM_ROWS} is not JSON"),
        (lambda text: b"[" + text.replace(b"\n", b",\n"), "the array is not JSON"),
    ],
)
def test_damaged_json_is_named_with_its_line(tmp_path, run, change, problem):
    (tmp_path / "rows.json").write_bytes(change(as_lines(make_rows())))
    with pytest.raises(DataError, match=problem):
        run(declare(), tmp_path / "rows.json")


MONTHS = (  # types of `age` and `at`
    (pa.int64(), pa.timestamp("ns")),
    (pa.float32(), pa.date32()),
    (pa.decimal128(21, 2), pa.timestamp("ms", "UTC")),
    (pa.string(), pa.string()),
    (pa.null(), pa.timestamp("s")),
    (pa.int8(), pa.date64()),
)


def test_parquet_months_whose_types_differ_are_one_table(tmp_path, same):
    rows = make_rows()
    for at, (age, time) in enumerate(MONTHS):
        month = rows[15 * at : 15 * at + 15]
        for row in month:
            row["age"] = None if age == pa.null() or row["age"] is None else int(row["age"])
        columns = {name: [row[name] for row in month] for name in rows[0]}
        days = pa.array(columns["at"]).cast(pa.date32())
        columns["at"] = days.cast(pa.timestamp("s")).cast(time) if time != pa.string() else days
        ages = pa.array(columns["age"], pa.int64())
        columns["age"] = pa.nulls(15) if age == pa.null() else ages.cast(age)
        table = pa.table({**columns, "fee": [1.0] * 15} if at == 2 else columns)
        parquet.write_table(table, tmp_path / f"2026-{at}.parquet")
    parquet.write_table(table.slice(0, 0), tmp_path / "2026-9.parquet")
    same(*sorted(tmp_path.glob("2026-*.parquet")), rows=rows, more='ignored=["fee"],')


def test_columns_of_folders_are_columns(tmp_path, same):
    rows = make_rows()
    for at, town in enumerate(["50% off", "Köln/Süd", None]):
        chosen = rows[30 * at : 30 * at + 30]
        for row in chosen:
            row["town"] = town
        quoted = {"Köln/Süd": "K%C3%B6ln%2FS%C3%BCd", "50% off": "50%25 off"}
        name = quoted.get(town or "", "__HIVE_DEFAULT_PARTITION__")
        folder = tmp_path / f"lake/Town={name}/part={at}"
        folder.mkdir(parents=True)
        own = [{name: value for name, value in row.items() if name != "town"} for row in chosen]
        if at:
            parquet.write_table(pa.Table.from_pylist(own), folder / "part-0.parquet")
        else:
            (folder / "part-0.csv").write_text(as_csv(own[:9]) + as_csv(own[9:]))  # joined
    (tmp_path / "lake/_SUCCESS").touch()
    (tmp_path / "lake/.part-0.crc").write_bytes(b"crc")
    same(tmp_path / "lake", rows=rows, more='ignored=["part"],')


def test_the_columns_of_folders_may_be_the_only_ones_that_are_read(tmp_path, run):
    for town in ("oak", "elm"):
        (tmp_path / f"lake/town={town}/age=4").mkdir(parents=True)
        rows = pa.table({"id": [f"{town} {number}" for number in range(60)]})
        parquet.write_table(rows, tmp_path / f"lake/town={town}/age=4/part-0.parquet")
    table = 'Table([Number("age")], label=Classes("town"), ignored=["id"])'
    assert run(table, tmp_path / "lake").rows == {"read": 120, "written": 120}


def test_a_column_that_only_some_files_have_is_missing_in_the_rows_of_others(
    tmp_path, same, caplog
):
    rows = make_rows()
    own = [{name: row[name] for name in row if name != "age"} for row in rows[:45]]
    (tmp_path / "a.csv").write_text(as_csv(own))
    shuffled = [dict(reversed(row.items())) for row in rows[45:]]
    renamed = [{name.title(): value for name, value in row.items()} for row in shuffled]
    parquet.write_table(pa.Table.from_pylist(renamed), tmp_path / "b.parquet")
    for row in rows[:45]:
        row["age"] = None
    same(tmp_path / "a.csv", tmp_path / "b.parquet", rows=rows)
    assert "a.csv lacks age, which its rows miss" in caplog.text


@pytest.mark.parametrize("lacking", ["left", "id"])
def test_each_file_needs_the_label_and_the_key(tmp_path, run, lacking):
    rows = make_rows()
    own = [{name: row[name] for name in row if name != lacking} for row in rows[:45]]
    (tmp_path / "a.csv").write_text(as_csv(own))
    (tmp_path / "b.csv").write_text(as_csv(rows[45:]))
    with pytest.raises(DataError, match=rf"the column '{lacking}' is not in .*a\.csv"):
        run(declare(), tmp_path / "a.csv", tmp_path / "b.csv")


def zipped(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "a,b\n1,2\n")
    return content.getvalue()


NAMED = {
    "xlsx": (zipped("xl/workbook.xml"), "a workbook of Excel .*save it as CSV"),
    "zip": (zipped("a.csv"), r"a zip archive of a\.csv: unpack it"),
    "feather": (b"ARROW1\0\0", r"Arrow .*pandas\.read_feather"),
    "ORC": (b"ORC\x11\0", r"an ORC file: .*pandas\.read_orc"),
    "Avro": (b"Obj\x01\x04", "an Avro file: export it as Parquet"),
    "gzipped Parquet": (gzip.compress(b"PAR1"), "gzipped Parquet file: unpack"),
    "web page": (b"\n<!DOCTYPE html><html>", "is a web page"),
    "ARFF": (b"% a\n% b\n@RELATION iris\n", r"an ARFF file: .*scipy\.io\.arff"),
    "LIBSVM": (b"1 3:1 10:0.5\n0 3:1\n", "a LIBSVM file: .*load_svmlight_file"),
    "columns of JSON": (b'{"a": {"0": 1}, "y": {"0": 2}}\n', "to_json.*orient='records'"),
    "blanks": (b"a\tb\tc d\n" + b"1   2  3  \t'x'\n" * 9, "has blanks between its fields"),
    "open quote": (
        gzip.compress(as_csv(make_rows()).encode() + b'"o\n'),
        "does not end; close the",
    ),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "half UTF-16": ("a,b\n1,2\n".encode("utf-16")[:-1], "not complete UTF-16"),
    "Windows-1252": (
        as_csv(make_rows()).encode("cp1252"),
        r"1: 'K\\\\xf6ln' is not UTF-8; in Windows-1252 it has 'Köln': .*; row 6:",
    ),
    "binary": (b"\x00\x01\x02" * 99, "of an unknown kind"),
}


@pytest.mark.parametrize(("content", "problem"), NAMED.values(), ids=NAMED)
def test_what_is_no_table_is_named_with_what_to_do(tmp_path, run, content, problem):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(DataError, match=rf"rows\.csv[:,]? .*{problem}"):
        run(declare(), tmp_path / "rows.csv")


@pytest.mark.fast
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-16"])
def test_utf_16_is_told_from_utf_8_in_any_alphabet(encoding):
    for town in ("東京都港区六本木", "Москва", "a 😀"):
        text = f"{town},年龄\n" + "".join(f"{town} {town},{at}\n" for at in range(40))
        assert encoding_of(text.encode(encoding)[:1001]) == encoding
    damaged = "town\n" + "a\0b\n\0" * 40
    assert encoding_of(damaged.encode()) == "utf-8"


def test_a_file_of_records_is_told_by_the_checksum_of_the_first_length(tmp_path):
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(tmp_path / "a.csv")) as file:
        file.write(bytes(0x8B1F))  # the length begins with gzip's two bytes
    assert file_kind(str(tmp_path / "a.csv")) == "records"
    assert [*read_records(tmp_path / "a.csv")] == [bytes(0x8B1F)]
