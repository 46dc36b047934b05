"""Tables from other programs, each compared byte by byte with the same rows in plain CSV."""

import csv
import datetime
import decimal
import gzip
import math
import uuid
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.values.times import wall_times
from tests.support.data.prepared import quarantined
from trainer.workloads.declarations.features import Timestamp

TIME = "trip_start_timestamp"
DERIVED = ("trip_start_hour", "trip_start_day", "trip_start_month")
TEXTS = ("payment_type", "company")
AMOUNTS = ("fare", "tips", "trip_miles")
CITY = ZoneInfo("America/Chicago")
NUM_ROWS = 120
INT96 = {"use_deprecated_int96_timestamps": True}
Rows = list[dict[str, str]]


@pytest.fixture
def rows(taxi_rows) -> Rows:
    """Return trips of the night in which daylight saving ends, with amounts inexact in binary."""
    made = taxi_rows(NUM_ROWS)
    first = 1_414_886_400  # 2 November 2014, 0:00
    for number, row in enumerate(made):
        row |= {TIME: str(first + 900 * number), "fare": f"{7.85 + number / 100:.2f}"}
        row["tips"] = f"{0.2 * float(row['fare']) + (number % 3 - 1) / 100:.2f}"
        for name in DERIVED:
            del row[name]
    return made


@pytest.fixture
def run(tmp_path):
    """Prepare a file; return its manifest and the bytes of its examples."""

    def do(file: Path, **options):
        chosen = PrepareOptions(files=[str(file)], num_shards={"train": 1}, **options)
        out = tmp_path / "out"
        manifest = prepare("taxi", output_dir=out, data_dir=tmp_path, options=chosen)
        return manifest, {path.name: path.read_bytes() for path in out.glob("*.tfrecord*")}

    return do


@pytest.fixture(scope="module")
def known() -> dict[tuple, dict[str, bytes]]:
    """The examples of plain CSV files, by content and options."""
    return {}


@pytest.fixture
def same(run, write_csv, rows, known):
    """Assert that a file gives the same examples as plain CSV; return its manifest."""

    def check(file: Path, plain: Rows | None = None, **options):
        path = write_csv(plain or rows, "plain.csv")
        key = (path.read_bytes(), str(options))
        expected = known.get(key) or known.setdefault(key, run(path, **options)[1])
        manifest, found = run(file, **options)
        assert manifest["rows"]["quarantined"] == 0
        assert found == expected
        return manifest

    return check


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Write columns as Parquet."""

    def do(columns: dict[str, pa.Array], *, metadata=None, **options) -> Path:
        table = pa.table(columns, metadata=metadata)
        parquet.write_table(table, tmp_path / "t.parquet", **options)
        return tmp_path / "t.parquet"

    return do


def texts_of(rows: Rows, kind: pa.DataType | None = None) -> dict[str, pa.Array]:
    """Return columns of texts, empty if missing."""
    found = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
    return {name: column.cast(kind or pa.string()) for name, column in found.items()}


def typed(rows: Rows) -> dict[str, pa.Array]:
    """Return columns of float64, int64 and texts with nulls."""
    found = {}
    for name in rows[0]:
        values = [row[name] or None for row in rows]
        if name not in TEXTS:
            values = [None if value is None else float(value) for value in values]
        kind = pa.string() if name in TEXTS else pa.float64()
        found[name] = pa.array(values, kind)
    return {**found, TIME: found[TIME].cast(pa.int64())}


def retyped(names, kind):
    def change(rows: Rows) -> dict[str, pa.Array]:
        columns = typed(rows)
        return {**columns, **{name: columns[name].cast(kind) for name in names}}

    return change


def decimals(kind):
    def change(rows: Rows) -> dict[str, pa.Array]:
        found = {
            name: pa.array([decimal.Decimal(row[name]) for row in rows], kind) for name in AMOUNTS
        }
        return {**typed(rows), **found}

    return change


def dictionaries(columns_of):
    def change(rows: Rows) -> dict[str, pa.Array]:
        return {name: c.dictionary_encode() for name, c in columns_of(rows).items()}

    return change


def as_nan(rows: Rows) -> dict[str, pa.Array]:
    columns = typed(rows)
    columns["pickup_census_tract"] = pa.array([math.nan] * len(rows))
    return columns


def as_null_type(rows: Rows) -> dict[str, pa.Array]:
    return {**typed(rows), "pickup_census_tract": pa.nulls(len(rows))}


def with_other_columns(rows: Rows) -> dict[str, pa.Array]:
    """Return dropped columns of other types, which are allowed."""
    size = len(rows)
    return {
        "trip_end_timestamp": pa.array([datetime.date(2014, 5, 1)] * size),
        "pickup_location": pa.array([{"lat": 41.9}] * size),
        "dropoff_location": pa.array([[1.0, 2.0]] * size),
        "tolls": pa.array([True] * size),
        "__index_level_0__": pa.array(range(size)),
        **typed(rows),
    }


def portal_names(rows: Rows) -> dict[str, pa.Array]:
    return {name.replace("_", " ").title(): column for name, column in typed(rows).items()}


SMALL = ("pickup_community_area", "dropoff_community_area")


def small_integers(*kinds: pa.DataType) -> Callable[[Rows], dict[str, pa.Array]]:
    """Return a maker of columns of integers of these kinds."""

    def make(rows: Rows) -> dict[str, pa.Array]:
        columns = typed(rows)
        for name, kind in zip(SMALL, kinds, strict=True):
            columns[name] = columns[name].cast(kind)
        return columns

    return make


MAKERS = {
    "numbers": typed,
    "texts": texts_of,
    "large texts": lambda rows: texts_of(rows, pa.large_string()),
    "text views": lambda rows: texts_of(rows, pa.string_view()),
    "bytes": lambda rows: texts_of(rows, pa.binary()),
    "large bytes": lambda rows: texts_of(rows, pa.large_binary()),
    "dictionaries of texts": dictionaries(texts_of),
    "dictionaries of numbers": dictionaries(typed),
    "decimal32": decimals(pa.decimal32(7, 2)),
    "decimal64": decimals(pa.decimal64(12, 2)),
    "decimal128": decimals(pa.decimal128(38, 9)),
    "decimal256": decimals(pa.decimal256(50, 4)),
    "float32": retyped((*AMOUNTS, "pickup_latitude", "dropoff_longitude"), pa.float32()),
    "float16": retyped(("trip_miles", *SMALL), pa.float16()),
    **{
        f"{kinds[0]} and {kinds[1]}": small_integers(*kinds)
        for kinds in (
            *((pa.int8(), pa.uint8()), (pa.uint16(), pa.int16())),
            *((pa.int32(), pa.uint32()), (pa.uint64(), pa.int64())),
        )
    },
    "seconds as uint64": retyped([TIME], pa.uint64()),
    "seconds as float64": retyped([TIME], pa.float64()),
    "seconds as decimals": retyped([TIME], pa.decimal128(24, 3)),
    "not-a-number for missing": as_nan,
    "a column of nulls": as_null_type,
    "other columns of any type": with_other_columns,
    "the portal's names": portal_names,
    "columns in another order": lambda rows: dict(reversed(typed(rows).items())),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_a_parquet_file_gives_the_examples_of_the_same_csv(same, write, rows, maker):
    same(write(maker(rows)))


WRITERS = {
    "gzip": {"compression": "gzip"},
    "zstd": {"compression": "zstd"},
    "brotli": {"compression": "brotli"},
    "lz4": {"compression": "lz4"},
    "uncompressed": {"compression": "none", "use_dictionary": False},
    "version 1.0": {"version": "1.0", "store_schema": False},
    "pages of version 2": {"data_page_version": "2.0"},
    "row groups": {"row_group_size": 50},
    "delta": {"use_dictionary": False, "column_encoding": {TIME: "DELTA_BINARY_PACKED"}},
}


@pytest.mark.parametrize("options", WRITERS.values(), ids=WRITERS)
def test_any_writers_settings_give_the_same_examples(same, write, rows, options):
    same(write(typed(rows), **options))


def walls(rows: Rows) -> list[datetime.datetime]:
    """Return the naive wall times."""
    return [datetime.datetime.fromtimestamp(int(r[TIME]), datetime.UTC).replace(tzinfo=None)
            for r in rows]  # fmt: skip


def instants(rows: Rows) -> list[datetime.datetime]:
    """Return the instants of the city's wall times."""
    return [wall.replace(tzinfo=CITY).astimezone(datetime.UTC) for wall in walls(rows)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_naive_timestamps_stay_as_they_are(same, write, rows, unit):
    times = pa.array(walls(rows)).cast(pa.timestamp(unit))
    manifest = same(write({**typed(rows), TIME: times}))
    assert manifest["times"]["rows_converted_from"] == {}


@pytest.mark.parametrize(
    ("unit", "zone"),
    [
        *(("us", "UTC"), ("s", "America/Chicago"), ("ms", "+00:00"), ("ns", "-05:00")),
        *(("ms", "Europe/Berlin"), ("s", "Asia/Kolkata"), ("ns", "UTC")),
    ],
)
def test_timestamps_with_a_zone_become_the_citys_wall_time(same, write, rows, unit, zone):
    times = pa.array(instants(rows), pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone))
    manifest = same(write({**typed(rows), TIME: times}))
    expected = {"column": TIME, "wall_time_of": "America/Chicago"}
    assert manifest["times"] == {**expected, "rows_converted_from": {zone: NUM_ROWS}}


@pytest.mark.parametrize("zone", ["America/Chicago", "Asia/Kolkata", "Australia/Lord_Howe"])
@pytest.mark.parametrize("day", ["2014-03-09", "2014-11-02", "2014-04-06", "2014-10-05"])
def test_wall_times_are_right_where_clocks_change(day, zone):
    first = datetime.datetime.fromisoformat(f"{day} 00:00+00:00") - datetime.timedelta(hours=15)
    moments = [first + datetime.timedelta(minutes=5 * number) for number in range(500)]
    column = Timestamp("t", time_zone=zone)
    found = wall_times(pa.array([None, *moments], pa.timestamp("ms", "UTC")), column)
    expected = [moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for moment in moments]
    assert found.to_pylist() == [None, *expected]


def test_instants_at_the_ends_of_the_calendar_have_a_wall_time():
    ends = pa.array([-62_135_596_800, 253_402_300_799])  # of the years 1 and 9999
    found = wall_times(ends.view(pa.timestamp("s", "UTC")), Timestamp("t", time_zone="Asia/Tokyo"))
    local_mean_time, japan = 9 * 3600 + 18 * 60 + 59, 9 * 3600
    shifts = pc.subtract(found.cast(pa.int64()), ends)
    assert shifts.to_pylist() == [local_mean_time, japan]
    west = wall_times(ends.view(pa.timestamp("s", "UTC")), Timestamp("t", time_zone="Etc/GMT+5"))
    assert pc.subtract(west.cast(pa.int64()), ends).to_pylist() == [-5 * 3600] * 2


def test_a_zone_without_arrows_schema_is_utc(same, write, rows):
    times = pa.array(instants(rows), pa.timestamp("us", "America/Chicago"))
    manifest = same(write({**typed(rows), TIME: times}, store_schema=False))
    assert manifest["times"]["rows_converted_from"] == {"UTC": NUM_ROWS}


def test_old_int96_timestamps_have_no_zone(same, write, rows):
    times = pa.array(walls(rows), pa.timestamp("ns"))
    same(write({**typed(rows), TIME: times}, **INT96))


def test_sparks_int96_timestamps_are_instants(same, write, rows):
    metadata = {"org.apache.spark.sql.parquet.row.metadata": "{}"}
    times = pa.array(instants(rows), pa.timestamp("us", "UTC"))
    columns = {**typed(rows), "pickup_location": pa.array([{"x": 1}] * NUM_ROWS), TIME: times}
    file = write(columns, metadata=metadata, **INT96)
    assert same(file)["times"]["rows_converted_from"] == {"UTC": NUM_ROWS}


def test_times_beyond_nanoseconds_are_impossible(run, write, rows):
    times = pa.array([datetime.datetime(2600, 1, 1), *walls(rows)[1:]], pa.timestamp("us"))
    file = write({**typed(rows), TIME: times}, **INT96)
    assert run(file)[0]["quarantine"]["by_column"] == {TIME: 1}


def test_the_time_zone_is_an_option(same, write, rows):
    times = pa.array(walls(rows)).cast(pa.timestamp("us", "UTC"))  # BigQuery's way
    manifest = same(write({**typed(rows), TIME: times}), time_zone="UTC")
    assert manifest["times"]["wall_time_of"] == "UTC"


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_a_date_is_its_midnight(same, write, rows, kind):
    days = [datetime.date(2014, 1, 1) + datetime.timedelta(n) for n in range(len(rows))]
    seconds = [str((day - datetime.date(1970, 1, 1)).days * 86_400) for day in days]
    plain = [{**row, TIME: second} for row, second in zip(rows, seconds, strict=True)]
    same(write({**typed(rows), TIME: pa.array(days, kind)}), plain)


def test_a_uuid_splits_rows_as_its_text(same, write, rows):
    keys = [uuid.UUID(int=number) for number in range(len(rows))]
    plain = [{**row, "unique_key": str(key)} for row, key in zip(rows, keys, strict=True)]
    column = pa.array([key.bytes for key in keys], pa.binary(16))
    same(write({**typed(rows), "unique_key": column}), plain)
    same(write({**typed(rows), "unique_key": pa.ExtensionArray.from_storage(pa.uuid(), column)}),
         plain)  # fmt: skip


def write_lines(path: Path, rows: Rows, **style) -> Path:
    with path.open("w", newline="", encoding=style.pop("encoding", "utf-8")) as file:
        writer = csv.DictWriter(file, list(rows[0]), **style)
        writer.writeheader()
        writer.writerows(rows)
    return path


def with_times(rows: Rows, times, form: str) -> Rows:
    made = [format(time, form) for time in times]
    return [{**row, TIME: time} for row, time in zip(rows, made, strict=True)]


CSV_MAKERS = {
    "a byte order mark and CRLF": lambda p, r: write_lines(p, r, encoding="utf-8-sig"),
    "all quoted": lambda p, r: write_lines(p, r, quoting=csv.QUOTE_ALL),
    "another order": lambda p, r: write_lines(p, [dict(reversed(x.items())) for x in r]),
    "the portal's names": lambda p, r: write_lines(
        p, [{n.replace("_", "  ").title(): v for n, v in x.items()} for x in r]
    ),
    "capitals": lambda p, r: write_lines(p, [{n.upper(): v for n, v in x.items()} for x in r]),
    "an index": lambda p, r: write_lines(p, [{"": str(n), **x} for n, x in enumerate(r)]),
    "more columns": lambda p, r: write_lines(p, [{**x, "tolls": "x", "Extras": ""} for x in r]),
    "whole numbers with .0": lambda p, r: write_lines(
        p, [{**x, TIME: x[TIME] + ".0", "trip_seconds": x["trip_seconds"] + ".0"} for x in r]
    ),
    "ISO": lambda p, r: write_lines(p, with_times(r, walls(r), "%Y-%m-%dT%H:%M:%S.000")),
    "BigQuery's times": lambda p, r: write_lines(
        p, with_times(r, walls(r), "%Y-%m-%d %H:%M:%S UTC")
    ),
    "the portal's times": lambda p, r: write_lines(
        p, with_times(r, walls(r), "%m/%d/%Y %I:%M:%S %p")
    ),
    "an offset": lambda p, r: write_lines(
        p, [{**x, TIME: str(t.astimezone(CITY))} for x, t in zip(r, instants(r), strict=True)]
    ),
    "zulu": lambda p, r: write_lines(p, with_times(r, instants(r), "%Y-%m-%dT%H:%M:%SZ")),
    "+00": lambda p, r: write_lines(p, with_times(r, instants(r), "%Y-%m-%d %H:%M:%S+00")),
}  # fmt: skip


@pytest.mark.parametrize("maker", CSV_MAKERS.values(), ids=CSV_MAKERS)
def test_csv_from_another_source_gives_the_same_examples(tmp_path, same, rows, maker):
    same(maker(tmp_path / "foreign.csv", rows))


def test_gzipped_csv_from_another_source_gives_the_same_examples(tmp_path, same, rows):
    path = write_lines(tmp_path / "foreign.csv", rows, encoding="utf-8-sig")
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    same(path.with_suffix(".csv.gz"))


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_another_separator_gives_the_same_examples(tmp_path, same, rows, separator):
    same(write_lines(tmp_path / "foreign.csv", rows, delimiter=separator))


BAD_TEXTS = [
    ("fare", "abc", "'abc' is not a number"),
    ("fare", "", "is missing"),
    ("trip_miles", "7,5", "'7,5' is not a number"),
    ("trip_seconds", " 9x", "' 9x' is not a number"),
    ("pickup_community_area", "7.5", "7.5 is not a whole number"),
    (TIME, "yesterday", "'yesterday' is not a time"),
    (TIME, "1400000400.5", "'1400000400.5' is not a time"),
]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary()], ids=str)
def test_rows_with_bad_texts_in_parquet_are_in_quarantine(run, write, rows, kind):
    for number, (column, value, _) in enumerate(BAD_TEXTS):
        rows[40 + 3 * number][column] = value
    path = write(texts_of(rows, kind))
    manifest, _ = run(path, max_quarantine=0.5)
    assert manifest["rows"]["quarantined"] == len(BAD_TEXTS)
    entries = sorted(quarantined(path.parent / "out"), key=lambda entry: entry["row"])
    for number, (entry, (column, value, reason)) in enumerate(zip(entries, BAD_TEXTS, strict=True)):
        found = (entry["file"], entry["row"], entry["column"])
        assert found == (str(path), 41 + 3 * number, column)
        assert reason in entry["reason"]
        assert entry["record"][column] == value


@pytest.mark.parametrize(
    "case",
    [
        ("trip_seconds", [2**63 + 1], "9.22337203685478e+18 is impossible"),
        (TIME, [1_400_000_400.5], "1400000400.5 is not a whole number"),
        (TIME, [1_400_000_400_000], "1400000400000 is impossible; allowed: 946,684,800 to"),
        (TIME, [math.inf], "inf is impossible"),
        ("fare", [-1.797693e308], "-1.797693e+308 is impossible; allowed: numbers of float32"),
        ("company", [b"Bl\xff"], r"'Bl\\xff' is not UTF-8"),
    ],
    ids=["uint64", "half a second", "milliseconds", "endless", "SPSS", "bytes"],
)
def test_a_bad_number_in_parquet_is_one_row_in_quarantine(tmp_path, run, write, rows, case):
    column, values, reason = case
    columns = typed(rows)
    kept = columns[column].to_pylist()[1:]
    kind = pa.uint64() if column == "trip_seconds" else None
    columns[column] = pa.array([*values, *(kept if kind is None else map(int, kept))], kind)
    run(write(columns))
    (entry,) = quarantined(tmp_path / "out")
    assert (entry["row"], entry["column"]) == (1, column)
    assert reason in entry["reason"]


def test_a_bad_row_shows_a_time_of_nanoseconds(tmp_path, run, write, rows):
    times = pa.array([int(row[TIME]) * 10**9 + 1 for row in rows], pa.timestamp("ns"))
    rows[3]["fare"] = "-1"
    run(write({**typed(rows), TIME: times}))
    (entry,) = quarantined(tmp_path / "out")
    assert entry["record"][TIME] == "2014-11-02 00:45:00.000000001"


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("fare", [True]),
        ("fare", [[7.5]]),
        ("fare", [{"amount": 7.5}]),
        ("trip_seconds", [datetime.timedelta(seconds=7)]),
        ("trip_miles", [datetime.datetime(2014, 5, 1)]),
        (TIME, [datetime.time(7)]),
        ("company", [["Blue"]]),
        ("payment_type", [datetime.date(2014, 5, 1)]),
    ],
)
def test_a_type_that_a_column_cannot_have_is_refused_by_name(run, write, rows, column, values):
    columns = {**typed(rows), column: pa.array(values * len(rows))}
    with pytest.raises(DataError) as caught:
        run(write(columns))
    path = write(columns)
    kind = parquet.read_schema(path).field(column).type
    assert f"{path}: the column {column!r} has the type {kind}; allowed are" in str(caught.value)
    assert "Work" not in str(caught.value)


@pytest.mark.parametrize(
    "flags",
    [(), ("--direct_num_workers=2", "--direct_running_mode=multi_processing")],
    ids=["here", "processes"],
)
def test_damage_in_a_parquet_file_is_reported_with_file_and_row(run, write, rows, flags):
    path = write(typed(rows), compression="gzip", row_group_size=60)
    content = bytearray(path.read_bytes())
    start = parquet.read_metadata(path).row_group(1).column(0).data_page_offset
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"^\S*t\.parquet, from row 61 on, cannot be read: "):
        run(path, beam_options=flags)
