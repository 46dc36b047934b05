"""`trainyard new --table`: guesses from a file, and a folder that loads."""

import csv
import gzip
import json
import random
import re
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.columns import match_header
from components.prepare_examples.tables.table_schema import schema_of
from pipelines.cli import main
from pipelines.projects.starter.folder import NewFolder, write_folder
from pipelines.projects.starter.reading import read_columns
from pipelines.projects.starter.tables import start_table
from trainer.workloads import (
    Binary,
    Category,
    Number,
    Table,
    Text,
    load_workload,
)

NUM_ROWS = 200
WORDS = ["one", "two", "three", "four", "five"]


@pytest.fixture
def columns():
    """Columns of 200 rows."""
    dice = random.Random(4)
    numbers = range(NUM_ROWS)
    return {
        "": list(numbers),
        "User ID": [f"U{at:04}" for at in numbers],
        "age (years)": [dice.choice(["NA", dice.randint(1, 99)]) for _ in numbers],
        "Größe (m²)": ["unbekannt" if at % 9 == 0 else f"{at / 3:.2f}" for at in numbers],
        "income": [round(dice.lognormvariate(5, 3), 2) for _ in numbers],
        "delta": [dice.uniform(-1, 1) for _ in numbers],
        "zip_code": [dice.randint(10_000, 10_020) for _ in numbers],
        "currency": ["EUR"] * NUM_ROWS,
        "city": [f"city {at % 7}\nx" for at in numbers],
        "session": [f"{dice.getrandbits(64):x}" for _ in numbers],
        "note": [" ".join(dice.choices(WORDS, k=6)) for _ in numbers],
        "empty": [""] * NUM_ROWS,
        "left": [dice.choice(["no", "no", "yes"]) for _ in numbers],
        "grade": [dice.randint(3, 8) for _ in numbers],
        "price": [round(dice.uniform(5, 90), 2) for _ in numbers],
        "topics": [dice.choice(["x|y", "z", "", "y"]) for _ in numbers],
        "themes": [dice.choice(["x; y", "z", "y"]) for _ in numbers],
    }


def write_csv(path: Path, columns, *, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture
def begin(tmp_path):
    """Return what `new` makes of a table's columns."""

    def do(columns, label: str, *, delimiter: str = ",", **how: str) -> NewFolder:
        path = write_csv(tmp_path / "a.csv", columns, delimiter=delimiter)
        return start_table([str(path)], label, **how)

    return do


@pytest.fixture
def written(tmp_path):
    """Write a folder; return its workload, which parses the examples of requests."""

    def do(start: NewFolder) -> Table:
        folder = Path(tempfile.mkdtemp(dir=tmp_path), "own")
        write_folder(folder, start)
        workload = load_workload(str(folder))
        for instance in json.loads((folder / "instances.json").read_text()):
            assert workload.parse_instance(instance)
        return workload

    return do


def declared(start: NewFolder) -> str:
    """Return the features of a workload's source."""
    kinds = "Category|Number|Text|Timestamp"
    return ", ".join(re.findall(rf"^        ((?:{kinds})\(.*?\)),(?:  #|$)", start.workload, re.M))


def test_features_are_guessed_from_their_values(tmp_path, columns, begin):
    write_folder(tmp_path / "own", begin(columns, "left"))
    workload = load_workload(str(tmp_path / "own"))
    found = {one.name: one for one in workload.features}
    assert found == {
        "age_years": Number("age_years", low=0, missing=("NA",)),
        "grosse_m2": Number("grosse_m2", low=0, missing=("unbekannt",)),
        "income": Number("income", low=0, is_logarithmic=True),
        "delta": Number("delta"),
        "zip_code": Category("zip_code"),
        "city": Category("city"),
        "note": Text("note"),
        "grade": Number("grade", low=0),
        "price": Number("price", low=0),
        "topics": Category("topics", separator="|"),
        "themes": Category("themes"),
    }
    assert workload.label == Binary("left", positive="yes", names=("no", "yes"))
    assert (workload.key, workload.missing) == ("user_id", ())
    assert {"currency", "session", "empty"} <= set(workload.ignored)
    assert workload.aliases == {"age (years)": "age_years", "Größe (m²)": "grosse_m2"}
    assert [path.name for path in (tmp_path / "own/tests").iterdir()] == ["test_own.py"]
    for instance in json.loads((tmp_path / "own/instances.json").read_text()):
        assert workload.parse_instance(instance)
    run = yaml.safe_load((tmp_path / "own/run.yaml").read_text())
    assert (run["prepare"]["files"], "thresholds" in run) == (["../a.csv"], False)
    assert run["train"] == {"batch_size": 32}  # the recipe says how long


@pytest.mark.parametrize(
    ("label", "how", "expected"),
    [
        ("grade", {}, 'Classes("grade", values=(3, 4, 5, 6, 7, 8))'),
        ("grade", {"kind": "regression"}, 'Regression("grade")'),
        ("price", {}, 'Regression("price")'),
        ("topics", {}, 'Multilabel("topics", separator="|")'),
        ("themes", {"kind": "multilabel"}, 'Multilabel("themes", separator=";")'),
        ("left", {"positive": "no"}, 'Binary("left", positive="no", names=("yes", "no"))'),
    ],
)
def test_the_kind_of_the_label_is_guessed_or_given(begin, columns, label, how, expected):
    chosen = {name: columns[name] for name in ("delta", label)}
    assert f"label={expected}," in begin(chosen, label, **how).workload


@pytest.mark.parametrize("form", ["tab", "bom", "folder"])
def test_other_files_give_the_same_workload(tmp_path, columns, begin, form):
    chosen = {name: columns[name] for name in ("User ID", "price", "city", "zip_code", "left")}
    plain = begin(chosen, "left").workload
    path = tmp_path / "other"
    if form == "folder":
        (path / "part").mkdir(parents=True)
        (path / "part/a").write_bytes((tmp_path / "a.csv").read_bytes())
    elif form == "bom":
        write_csv(path, chosen, encoding="utf-8-sig")
    else:
        write_csv(path, chosen, delimiter="\t", encoding="utf-16")
    assert start_table([str(path)], "left").workload == plain


@pytest.mark.parametrize(
    ("content", "label", "expected"),
    [
        (b"", "y", "is empty"),
        (b"a,y\n", "y", "no rows"),
        (b"a,y\n1,2\n", "y", "at least 30"),
        (b"a,y\n" + b"\xff,1\n" * 40, "y", "row 1: a: .* is not UTF-8"),
        (b"a,y\n" + b"1,1\n2,1\n" * 40, "y", "'1' in all rows"),
        (b"a,y\n" + b"1,\n2,?\n" * 40, "y", "y: it is empty in all rows"),
        (b"a,y\n" + b"1,1\n2,2\n" * 40, "z", "--label z: .*columns are a, y"),
        (b"\x1f\x8b\x08broken", "y", "not a complete gzip"),
        (b"PAR1broken", "y", "not a complete Parquet"),
        (b"1,2,0\n" * 40, "y", "first line has values.*--header a,b,c"),
        (b"5,0.1,x,0.1\n" + b"4,0.2,y,0.3\n" * 40, "y", "first line has values"),
        (b"5.1,0.2,rose\n" + b"4.9,0.2,rose\n5.1,0.3,oak\n" * 20, "x", "first line has values"),
        (b"p,x\n" + b"p,y\ne,x\n" * 20, "x", "first line has values"),
        (
            b"60,x\n" + b"1,2,3\n" * 40,
            "x",
            "row 1, '1,2,3', with 3 fields instead of 2; .* the first line or --header",
        ),
        (
            b"Account;12\n\na;b;y\n" + b"1;2;3\n" * 40,
            "y",
            "row 1, 'a;b;y', with 3 fields instead of 2; if it is the header, remove",
        ),
        (b"Sales,,,\na,b,c,y\n" + b"1,2,3,x\n" * 40, "y", "if the first line is a title, remove"),
        (b'"How\nold?",x\n' + b"1,2\n" * 40, "y", r"columns are 'How\\nold\?', x \("),
        (b'"a" "b" "y"\n' + b'"1" 3 0.5 "p"\n' * 40, "y", "has blanks between its fields"),
        (b"a,y\n" + b"1,2\n" * 40 + b'"2,1\n' * 3, "y", "a record does not end; close the quote"),
        (b"a,a,y\n" + b"1,1,1\n" * 40, "y", "'a' occurs twice"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, label, expected):
    (tmp_path / "bad.csv").write_bytes(content)
    with pytest.raises(DataError, match=expected):
        start_table([str(tmp_path / "bad.csv")], label)


TOWNS = {
    "one row": (
        "utf-8",
        ["Köln", "Nürnberg"],
        17,
        "row 18 is in another encoding than the rest: 1 of 90",
    ),
    "Windows-1252": ("cp1252", ["Köln", "Besançon"], None, "Windows-1252 it has 'Köln'.*1252 -t"),
    "Shift-JIS": ("cp932", ["東京都", "ソニー"], None, "Shift-JIS it has '東京都'.*-f CP932"),
    "Chinese": ("gbk", ["北京", "上海市"], None, "not known: save it as UTF-8"),
}


@pytest.mark.fast
@pytest.mark.parametrize("form", ["gzip", "lines"])
@pytest.mark.parametrize("case", TOWNS)
def test_what_is_not_utf_8_has_advice_that_damages_nothing(tmp_path, case, form):
    encoding, towns, bad, problem = TOWNS[case]
    row = '{{"town": "{}"}}\n' if form == "lines" else "{}\n"
    rows = [row.format(towns[at % 2]).encode(encoding) for at in range(90)]
    if bad is not None:
        rows[bad] = row.format(towns[1]).encode("cp1252")
    content = b"".join([b"town\n" * (form != "lines"), *rows])
    (tmp_path / "a.csv").write_bytes(gzip.compress(content) if form == "gzip" else content)
    problem = problem.replace("row", "line") if form == "lines" else problem
    with pytest.raises(DataError, match=problem) as failed:
        read_columns([str(tmp_path / "a.csv")])
    assert ("iconv" in str(failed.value)) == ("it has" in problem)
    assert ("zcat" in str(failed.value)) == ("it has" in problem and form == "gzip")


@pytest.mark.parametrize(
    "header",
    [("0", "1", "2"), ("country", "2019", "2020"), ("0.25", "0.5", "left"), ("male", "age", "y")],
    ids=["numbered", "years", "quantiles", "a value that is a name, too"],
)
def test_unusual_names_are_no_values(tmp_path, header):
    rows = [f"{'male' if at % 2 else 'x'},{at / 7},{'ab'[at % 2]}" for at in range(60)]
    again = [",".join(header)] if header[0] == "male" else []  # files that were joined
    (tmp_path / "a.csv").write_text("\n".join([",".join(header), *rows, *again]) + "\n")
    names = [one.name for one in read_columns([str(tmp_path / "a.csv")]).columns]
    assert names == list(header)


def test_further_columns_without_a_name_are_numbered(tmp_path):
    (tmp_path / "a.csv").write_text("a,,y,,\n" + "1,2,x,,\n" * 40)
    names = [one.name for one in read_columns([str(tmp_path / "a.csv")]).columns]
    assert names == ["a", "", "y", "Unnamed: 3", "Unnamed: 4"]


def test_a_file_without_the_label_in_a_folder_is_named(tmp_path, columns):
    write_csv(tmp_path / "a.csv", {name: columns[name] for name in ("price", "left")})
    (tmp_path / "LICENSE").write_text("MIT")
    with pytest.raises(DataError, match="LICENSE has no label 'left'; leave the file out"):
        start_table([str(tmp_path)], "left")


def test_fields_between_blanks_are_named_with_a_given_header(tmp_path):
    (tmp_path / "a.data").write_text("18.0   8   307.0\n" * 40)
    with pytest.raises(DataError, match="has blanks between its fields"):
        read_columns([str(tmp_path / "a.data")], header=["mpg", "cylinders", "power"])


def test_the_columns_of_a_file_without_a_header_can_be_given(tmp_path, columns, capfd):
    chosen = {name: columns[name] for name in ("price", "left")}
    path = write_csv(tmp_path / "a.csv", chosen)
    path.write_text(path.read_text().split("\n", 1)[1])
    words = ["--table", str(path), "--header", "price, left", "--label", "left"]
    assert main(["new", str(tmp_path / "own"), *words]) == 0
    workload = load_workload(str(tmp_path / "own"))
    assert (workload.feature_names, workload.header) == (["price"], ("price", "left"))
    assert workload.label.positive == "yes"
    words = ["--images", str(tmp_path), "--header", "a"]
    assert main(["new", str(tmp_path / "more"), *words]) == 2
    assert "--header and --written need --table" in capfd.readouterr().err


TYPED = {
    "struct": pa.array([{"lat": 1.5}] * NUM_ROWS),
    "map": pa.array([[("a", 1)]] * NUM_ROWS, pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"\xc8\x00"] * NUM_ROWS),
    "duration": pa.array(range(NUM_ROWS), pa.duration("s")),
    "time32": pa.array(range(NUM_ROWS), pa.time32("s")),
    "list<": pa.array([[[1.0], [2.0]]] * NUM_ROWS),
    "list of numbers": pa.array([[1.0, 2.0][: at % 3] for at in range(NUM_ROWS)]),
    "longer than others": pa.array([[1.0, None]] * NUM_ROWS),
    "inf": pa.array([float("inf") if at % 9 == 0 else at / 7 for at in range(NUM_ROWS)]),
}


@pytest.mark.parametrize("kind", TYPED)
def test_a_type_that_no_feature_has_is_noted_and_ignored(tmp_path, columns, kind):
    table = {"odd": TYPED[kind], "price": columns["price"], "left": columns["left"]}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    start = start_table([str(tmp_path / "a.parquet")], "left")
    [note] = start.notes
    assert note.startswith("odd: ")
    assert kind in note
    write_folder(tmp_path / "own", start)
    workload = load_workload(str(tmp_path / "own"))
    assert (workload.feature_names, workload.ignored) == (["price"], ("odd",))
    alone = {name: table[name] for name in ("odd", "left")}
    parquet.write_table(pa.table(alone), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=rf"no column besides left .*odd: .*{kind}"):
        start_table([str(tmp_path / "a.parquet")], "left")
    if kind != "inf":
        with pytest.raises(DataError, match=rf"--label odd: its type is .*{kind}.*a label is"):
            start_table([str(tmp_path / "a.parquet")], "odd")


@pytest.mark.parametrize("kind", [None, pa.list_(pa.float32(), 2), pa.large_list(pa.int32())])
def test_lists_of_numbers_of_one_length_are_numbers(tmp_path, columns, written, kind):
    # Arrow cannot read its own fixed-size lists if one is missing.
    is_fixed = kind is not None and pa.types.is_fixed_size_list(kind)
    points = [None if at == 5 and not is_fixed else [at, 1] for at in range(NUM_ROWS)]
    table = pa.table({"point": pa.array(points, kind), "left": columns["left"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    start = start_table([str(tmp_path / "a.parquet")], "left")
    assert written(start).features == (Number("point", length=2),)
    assert start.instances[0] == {"point": [0.0, 1.0]}


def test_files_whose_columns_differ_in_case_order_and_number_are_one_table(tmp_path, columns):
    chosen = {name: columns[name] for name in ("price", "delta", "left")}
    write_csv(tmp_path / "a.csv", chosen)
    other = {"LEFT": columns["left"], "Price": columns["price"], "grade": columns["grade"]}
    parquet.write_table(pa.table(other), tmp_path / "b.parquet")
    contents = read_columns([str(tmp_path / "a.csv"), str(tmp_path / "b.parquet")])
    counts = {one.name: len(one.present) for one in contents.columns}
    both = 2 * NUM_ROWS
    assert counts == {"price": both, "delta": NUM_ROWS, "left": both, "grade": NUM_ROWS}
    with pytest.raises(DataError, match=r"a\.csv has no label 'grade'; leave the file out"):
        start_table([str(tmp_path / "a.csv"), str(tmp_path / "b.parquet")], "grade")


@pytest.mark.parametrize(
    ("label", "features", "told"),
    [
        ("is_a", "is_b is_c age", "is_b, is_c"),
        ("is_a", "is_b age", ""),
        ("is_a", "closed age", "closed"),
        ("city", "town age", ""),
        ("sort", "is_a is_b is_c", "is_a, is_b, is_c"),
        ("total", "is_a is_b copy part rest", "copy, part, rest"),
        ("city", "code age", "code"),
        ("points", "log age", "log"),
        ("points", "on age", "on"),
        ("other", "log points part age", ""),
    ],
)
def test_columns_that_tell_the_label_are_noted(begin, label, features, told):
    dice = np.random.default_rng(5)
    sorts, points = dice.integers(0, 3, 600), dice.uniform(1, 100, 600)
    sorts = np.sort(sorts)[np.argsort(np.argsort(points))]
    part, rest = dice.uniform(0, 9, (2, 600))
    city = np.arange(600) % 55
    table = {
        "sort": np.array(["a", "b", "c"])[sorts],
        **{f"is_{name}": np.where(sorts == at, 1, 0) for at, name in enumerate("abc")},
        "closed": np.where(sorts, dice.integers(0, 50, 600).astype(str), ""),
        "town": np.char.add("t", np.arange(600).astype(str)),
        "age": dice.integers(18, 90, 600),
        "points": points,
        "log": np.log(points),
        "on": (np.datetime64("2024-01-01") + np.argsort(np.argsort(points))).astype(str),
        "part": part,
        "rest": rest,
        "total": part + rest,
        "copy": 2 * (part + rest),
        "city": np.char.add("city ", city.astype(str)),
        "code": np.char.add("c", (city * 7 % 55).astype(str)),
        "other": points + dice.normal(0, 1, 600),
    }
    columns = {name: table[name].tolist() for name in (*features.split(), label)}
    notes = [note for note in begin(columns, label).notes if " tells " in note]
    assert ", ".join(note.partition(":")[0] for note in notes) == told
    told_by = re.compile(r" tells \w+ (alone|by the rows that miss it|together with \w.*): remove ")
    assert all(map(told_by.search, notes)), notes


EITHER = {"1,234": ("1,234.5", "1234,5"), "1.234": ("1234.5", "1.234,5")}


@pytest.mark.parametrize(
    ("delimiter", "texts", "form"),
    [
        (";", ["1,234", "2,500"], None),
        (";", ["1.234", "2.500"], None),
        (";", ["1.234", "398"], "1.234,5"),
        (";", ["1.234", "3398"], ""),
        (",", ["1.234", "398"], None),
        (",", ["1,234", "2,500"], "1,234.5"),
        (";", [*(f"{at + 1},250" for at in range(59)), "1,234.5"], "1,234.5"),
        (";", ["1,250"] * 59 + ["1,234,567"], "1,234.5"),
        (";", ["1,234", "0,250"], "1234,5"),
    ],
)
def test_numbers_that_two_forms_read_are_asked_for_unless_all_others_decide(
    begin, delimiter, texts, form
):
    rows = {"x": (texts * 30)[:60], "y": ["a", "b", "b"] * 20}
    told = {}
    if form is None:
        forms = EITHER[texts[0][:5]]
        shown = [re.escape(f"(--written x={one})") for one in forms]
        with pytest.raises(DataError, match=f"x: '{texts[0]}' is .* {' or .* '.join(shown)}"):
            begin(rows, "y", delimiter=delimiter)
        form = forms[1]
        told = {"told": {"x": form}}
    found = declared(begin(rows, "y", delimiter=delimiter, **told))
    written = f', written="{form}"' * bool(form)
    assert found.replace(", is_logarithmic=True", "") == f'Number("x", low=0{written})'


def test_days_that_two_formats_read_are_asked_for(begin):
    rows = {"at": [f"0{1 + row % 9}/0{1 + row % 7}/2024 03:04:05 PM" for row in ROWS], "left": LEFT}
    with pytest.raises(
        DataError, match=r"at: '0./0./2024 03.* is .*=%d/%m/%Y .* or .*=%m/%d/%Y .*: all"
    ):
        begin(rows, "left")
    for form in ("%d/%m/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M:%S %p"):
        assert f'Timestamp("at", format="{form}"' in begin(rows, "left", told={"at": form}).workload
    assert form in begin(rows, "left", told={"": form}).workload
    assert 'Text("at")' in begin(rows, "left", told={"at": "text"}).workload
    with pytest.raises(DataError, match="--written at=%Y: it does not read all values, as '01/01"):
        begin(rows, "left", told={"at": "%Y"})
    with pytest.raises(DataError, match="--written on: the columns are at, left"):
        begin(rows, "left", told={"on": "%Y"})


def test_digits_alone_are_times_if_none_is_lacking(begin):
    rows = {"at": [f"{row % 24:02}{row % 59:02}" for row in ROWS], "left": LEFT}
    start = begin(rows, "left", told={"at": "%H%M"})
    assert 'Timestamp("at", format="%H%M", parts=("hour", "minute"))' in start.workload
    rows["at"][1:9] = [text[1:] for text in rows["at"][1:9]]
    with pytest.raises(DataError, match="at=%H%M: it does not read all values, as '101'"):
        begin(rows, "left", told={"at": "%H%M"})


def test_rows_with_other_numbers_of_fields_are_said_and_counted(tmp_path):
    lines = [f"{at},{'ab'[at % 2]}" for at in range(60)]
    lines[10:10] = ["Exported by me", "1,2,3"]
    lines[30] = "4O,a"
    (tmp_path / "a.csv").write_text("\n".join(["age,left", *lines]))
    notes = start_table([str(tmp_path / "a.csv")], "left").notes
    assert "2 rows left out: row 11, 'Exported by me', with 1 fields instead of 2" in notes
    assert [note for note in notes if note.startswith("age: row 31: '4O' is not a number")]


ROWS = range(300)
AGES = [str(18 + row % 61) for row in ROWS]
LEFT = ["no" if row % 3 else "yes" for row in ROWS]
READINGS = {
    "codes": (
        {"branch": ["007", "010", "123", "004"]},
        'Category("branch")',
        "branch: read as .*codes with zeros in front, such as 004",
    ),
    "dates in digits": (
        {"seen": [f"201810{row % 28 + 1:02}" for row in ROWS]},
        'Category("seen")',
        "seen: read as .*perhaps dates: with 8 digits, as 20181001, --written seen=%Y%m%d reads",
    ),
    "milliseconds": (
        {"at": [str(1_760_000_000_000 + 6_100_000 * row) for row in ROWS]},
        'Timestamp("at", format="milliseconds")',
        "at: read as .*Unix milliseconds",
    ),
    "a label that may be missing": (
        {"left": ["NA" if row % 30 == 1 else text for row, text in enumerate(LEFT)]},
        "",
        "left: perhaps missing: 'NA'; if so, add",
    ),
    "numbers of rows with gaps": (
        {"instant": [str(row + row // 90) for row in ROWS]},
        "",
        "instant: the key, .*consecutive",
    ),
    "numbers in equal steps": (
        {"at": [f"{1978.08 + row / 12:.2f}" for row in ROWS]},
        "",
        r'at: the key, .*equal steps.*to make it one, .* as Number\("at"\), and remove key',
    ),
    "numbers that are no numbers of rows": (
        {
            "visits": [3 * (row * 7 % 300) for row in ROWS],
            "price": [row + row % 7 / 2 for row in ROWS],
        },
        'Number("visits", low=0), Number("price", low=0)',
        "",
    ),
    "a column without a name": (
        {"": AGES},
        "",
        "the column without a name: left out: .*give it another name in the file",
    ),
    "numbers with more digits than float32": (
        {"tract": [str(17_031_000_000 + 100 * (row % 90)) for row in ROWS]},
        'Category("tract")',
        "tract: read as .*more digits than a Number keeps",
    ),
    "years": (
        {"at": [f"{1970 + row % 13}-01-01" for row in ROWS]},
        'Timestamp("at", parts=("year",))',
        "",
    ),
    "a number that is too large": (
        {"age": ["1e400" if row == 90 else age for row, age in enumerate(AGES)]},
        'Number("age", low=0)',
        "age: row 91: '1e400' is too large for a float32, so the row is left out; correct the file",
    ),
    "part numbers that look like large numbers": (
        {"part": [f"{row % 7 + 1}E{213 + row % 5}" for row in ROWS]},
        'Category("part")',
        "",
    ),
    "an area and a numbered district": (
        {"GrLivArea": [row * row % 1901 for row in ROWS], "pickup_community_area": [*range(61)]},
        'Number("GrLivArea", low=0), Category("pickup_community_area")',
        "",
    ),
    "a minus behind": (
        {"amount": ["12,50-", "1.300,00", "3,20-"]},
        'Number("amount", written="1.234,5", signs=("-",))',
        r"amount: '1\.300,00' is read as 1300; .*signs in workload",
    ),
    "numbers that may be below 0 elsewhere": (
        {
            "temp_c": [f"{12 + row % 90 / 10:g}" for row in ROWS],
            "lat": ["46.5", "47.25", "46.75", "47.5"],
        },
        'Number("temp_c"), Number("lat")',
        "",
    ),
    "telephones": (
        {"phone": [f"+41 79 {row:03} 12 {row % 90}" for row in ROWS]},
        "",
        "phone: left out: another value in nearly every row, such as .*: an identifier",
    ),
    "rows of patients": (
        {"patient": [f"P{row // 4}" for row in ROWS]},
        "",
        "patient: no feature, but group_by: ids: 75 values, 4.0 rows of each, all in the same",
    ),
    "times in two formats": (
        {
            "at": [
                f"2024-{1 + row % 12:02}-17" if row % 3 else f"17.{1 + row % 12:02}.2024"
                for row in ROWS
            ],
        },
        'Category("at")',
        "at: read as .*; perhaps times, as '.*2024', but no format reads all: write",
    ),
    "a mistake among times": (
        {"at": ["soon" if row == 90 else f"17.{1 + row % 12:02}.2024" for row in ROWS]},
        'Timestamp("at", format="%d.%m.%Y", parts=("year", "month"))',
        "at: row 91: 'soon' is not a time, so the row is left out; correct the file",
    ),
    "few values": (
        {"rare": ["3" if row % 100 == 7 else "" for row in ROWS]},
        "",
        "rare: left out: missing in 297 of 300 rows",
    ),
    "a dropped column": (
        {"hash": [f"{row * 7919:x}z" for row in ROWS]},
        "",
        r'hash: left out: .*identifier, or the key; to keep it, .* as Category\("hash"\)',
    ),
}


@pytest.mark.parametrize(
    ("low", "high", "code", "is_told"),
    [(-19, 446, -200, True), (-19, 44.6, -200, True), (-197, 446, -200, False), (1, 60, 99, True)],
)
def test_a_missing_code_of_the_label_is_told_as_in_other_columns(begin, low, high, code, is_told):
    span = high - low
    values = [code if at % 23 == 0 else round(low + at * 37 % 299 / 298 * span) for at in ROWS]
    rows = {"age": AGES, "rain": values, "y": values[::-1]}
    start = begin(rows, "y", kind="regression")
    told = f"y, rain: perhaps missing: '{code}'; if so, add missing=(\"{code}\",) in"
    assert any(note.startswith(told) for note in start.notes) == is_told
    assert start.workload.count(f"; perhaps missing: '{code}'") == 2 * is_told


def test_notes_of_one_kind_are_one_note(begin):
    names = [f"c{at}" for at in range(14)]
    rows = {name: [f" {'xyz'[at * 7 % 11 % 3]}" for at in ROWS] for name in names}
    rows |= {f"empty {at}": [""] * 300 for at in range(3)}
    blanks, empty = begin({**rows, "left": LEFT}, "left").notes
    assert empty.startswith("empty 0, empty 1, empty 2: left out: empty in all rows; to keep it,")
    shown = ", ".join(names[:8])
    assert blanks == f"{shown} and 6 more: blanks around values are no part of them"


def test_a_line_of_totals_and_quantities_in_several_units_are_said(begin):
    votes = [7 + at * 7 % 299 for at in ROWS[1:]]
    weights = [f"{60 + at % 40}{'lbs' if at % 9 else ' kg'}" for at in ROWS]
    floors = [f"{at % 7 + 1}{'AB'[at % 2]}" for at in ROWS]
    classes = [["1st", "2nd", "3rd"][at // 7 % 3] for at in ROWS]
    rows = {
        "votes": [*votes, sum(votes)],
        "weight": weights,
        "floor": floors,
        "class": classes,
        "left": LEFT,
    }
    notes = begin(rows, "left").notes
    assert [note.partition(": ")[0] for note in notes] == ["weight", "votes"]
    assert "perhaps quantities in kg, lbs" in notes[0]
    assert notes[1] == "votes: row 300 has the sum of all others: remove a total"


DOUBTS = {
    "times of day or durations: give --written {}=%H:%M for times, write durations as numbers": (
        ["8:30", "11:05", "23:59"]
    ),
    "durations: write them as numbers of one unit to use them": ["0 days 00:10:01", "27:59:01"],
    "times of day: with 4 digits, as 0000, --written {}=%H%M reads them": (
        [row % 24 * 100 + row % 59 for row in ROWS]
    ),
    "dates: with 8 digits, as 01312018, --written {}=%m%d%Y reads them": (["1312018", "12312018"]),
    "dates: with 8 digits, as 11122018, --written {0}=%m%d%Y or --written {0}=%d%m%Y reads them": (
        ["11122018", "10112018"]
    ),
    'lists: to read them so, declare Category("{}", separator=",")': ["x", "y", "x, y", "y, x"],
    "numbers, but for 2, as '<5': correct the file, or, if they mean missing, declare"
    ' Number("{}", missing=("<5", "[98]"))': ["<5", "[98]", *range(50)],
}


def test_what_values_may_be_besides_is_said(begin):
    values = {f"c{at}": own for at, own in enumerate(DOUBTS.values())}
    rows = {name: [own[row % len(own)] for row in ROWS] for name, own in values.items()}
    said = dict(note.split(": ", 1) for note in begin({**rows, "left": LEFT}, "left").notes)
    for name, doubt in zip(rows, DOUBTS, strict=True):
        assert f"; perhaps {doubt.format(name)}" in said[name]


@pytest.mark.parametrize("case", READINGS)
def test_each_reading_is_declared_and_said(begin, written, case):
    columns, expected, note = READINGS[case]
    rows = {name: [values[row % len(values)] for row in ROWS] for name, values in columns.items()}
    start = begin({"left": LEFT, **rows, "years": AGES}, "left")
    assert declared(start) == ", ".join(filter(None, [expected, 'Number("years", low=0)']))
    assert any(re.search(note, one) for one in start.notes) if note else not start.notes
    assert written(start)


def test_the_only_column_is_a_feature_though_it_numbers_the_rows(begin):
    columns = {"x": range(300), "y": [(at / 10 - 7) ** 2 for at in range(300)]}
    start = begin(columns, "y")
    assert declared(start) == 'Number("x")'
    [note] = start.notes
    assert note.startswith('x: read as Number("x"): consecutive numbers')


@pytest.mark.parametrize(
    ("values", "declaration"),
    [
        (
            [f"${1000 * row:,}" for row in range(1, 100)],
            'Regression("y", written="1,234.5", signs=("$",))',
        ),
        (["1,5", "2,25", "3"], 'Regression("y", written="1234,5")'),
        (["NA", *map(str, range(50))], 'Regression("y", missing=("NA",))'),
        (["low", "none", "high"], 'Classes("y", values=("high", "low", "none"))'),
        (["1", "1.0", "0", "0.0"], 'Binary("y", positive=1, names=("0", "1"))'),
        (["1", "1", "2"], 'Binary("y", positive=2, names=("1", "2"))'),
        (["01", "02"], 'Binary("y", positive="02", names=("01", "02"))'),
    ],
)
def test_labels_are_declared_as_they_are_written(begin, values, declaration):
    label = [values[row % len(values)] for row in ROWS]
    assert declaration in begin({"age": AGES, "y": label}, "y").workload


@pytest.mark.parametrize("values", [("0", "1", "x"), ("0", "1", "11"), ("no", "yes", "yse")])
def test_a_value_of_a_binary_label_that_occurs_once_is_a_mistake(begin, values):
    negative, positive, odd = values
    label = [odd if row == 90 else (negative, positive)[row % 3 == 0] for row in ROWS]
    start = begin({"age": AGES, "left": label}, "left")
    assert "Binary(" in start.workload
    assert f"{odd}," not in start.workload
    assert [note for note in start.notes if f"left: row 91: '{odd}' is n" in note]


def test_a_binary_label_of_three_values_is_refused_with_counts(begin):
    with pytest.raises(DataError, match=r"it has 3 values.*'a' \(100 rows\), 'b' \(100 rows\)"):
        begin({"age": AGES, "y": ["a", "b", "c"] * 100}, "y", positive="a")


@pytest.mark.parametrize("label", ["Left (y/n)", "left  (Y/N)", "left_y_n"])
def test_the_label_may_be_named_as_in_the_file_or_as_it_is_declared(begin, written, label):
    workload = written(begin({"age": AGES, "Left (y/n)": LEFT}, label))
    assert workload.label.column == "left_y_n"
    assert workload.aliases == {"Left (y/n)": "left_y_n"}


NAMES = {
    **{name: name for name in ("class", "Age", "age", "x.y", "年龄", "µ")},
    "x/y": "x_y",
    "x-y": "x_y_2",
    "%": "column",
    "€ (m²)": "m2",
    "key": "c_key",
    "1st": "c_1st",
    "Дата рождения": "дата_рождения",
    "price_is_missing": "price_is_missing_2",
    "price": "price",
}


def test_each_column_has_a_name_of_its_own(columns, begin, written):
    start = begin(dict.fromkeys(NAMES, columns["price"]) | {"流失": columns["left"]}, "流失")
    workload = written(start)
    assert [one.name for one in workload.features] == list(NAMES.values())
    assert list(start.instances[0]) == list(NAMES)
    found = match_header([*NAMES, "流失"], schema_of(workload))
    assert found.columns == [*NAMES.values(), "流失"]


@pytest.mark.parametrize(("num_rows", "settings"), [(40, {"files", "ratios"}), (400, {"files"})])
def test_few_rows_have_larger_eval_and_test_splits(tmp_path, columns, begin, num_rows, settings):
    chosen = {name: (columns[name] * 2)[:num_rows] for name in ("price", "left")}
    write_folder(tmp_path / "own", begin(chosen, "left"))
    assert {*yaml.safe_load((tmp_path / "own/run.yaml").read_text())["prepare"]} == settings


def test_nothing_is_overwritten(tmp_path, columns, capfd):
    path = write_csv(tmp_path / "a.csv", {name: columns[name] for name in ("price", "left")})
    call = ["new", str(tmp_path / "own"), "--table", str(path), "--label", "left"]
    assert main(call) == 0
    before = (tmp_path / "own/workload.py").read_text()
    assert main([*call, "--positive", "no"]) == 2
    assert "is not empty; nothing is overwritten" in capfd.readouterr().err
    assert (tmp_path / "own/workload.py").read_text() == before
