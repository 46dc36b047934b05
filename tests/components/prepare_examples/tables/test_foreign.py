"""Tables from other programs, each compared byte by byte with the same rows in plain CSV."""

import csv
import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.values.times import wall_times
from tests.support.data.csv_tables import write_table
from trainer import Json
from trainer.workloads.declarations.features import Timestamp

TIME = "trip_start_timestamp"
DERIVED = ("trip_start_hour", "trip_start_day", "trip_start_month")
TEXTS = ("payment_type", "company")
AMOUNTS = ("fare", "tips", "trip_miles")
AREAS = ("pickup_community_area", "dropoff_community_area")
TRACT = "pickup_census_tract"
CITY = ZoneInfo("America/Chicago")
NUM_ROWS = 120
INT96 = {"use_deprecated_int96_timestamps": True}
Rows = list[dict[str, str]]
Columns = dict[str, pa.Array]


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
def same(run, write_csv, rows) -> Callable[..., Json]:
    """Assert that a file gives the same examples as plain CSV; return its manifest."""

    def check(file: Path, plain: Rows | None = None, **options):
        expected = run("taxi", write_csv(plain or rows, "plain.csv"), **options)
        found = run("taxi", file, **options)
        assert "quarantined" not in found.rows
        assert found.shards == expected.shards
        return found.manifest

    return check


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Write columns as Parquet."""

    def do(columns: Columns, *, metadata=None, **options) -> Path:
        table = pa.table(columns, metadata=metadata)
        parquet.write_table(table, tmp_path / "t.parquet", **options)
        return tmp_path / "t.parquet"

    return do


def array(texts: list[str], kind: pa.DataType) -> pa.Array:
    """Return texts as values of a type: numbers are missing where a text is empty."""
    if pa.types.is_dictionary(kind):
        return array(texts, kind.value_type).dictionary_encode()
    if pa.types.is_decimal(kind):
        return pa.array(map(decimal.Decimal, texts), kind)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return pa.array([float(text) if text else None for text in texts]).cast(kind)
    return pa.array(texts).cast(kind)


def typed(rows: Rows, names: Iterable[str] = (), kind: pa.DataType | None = None) -> Columns:
    """Return columns of float64, int64 and texts with nulls; some of another type."""
    found = {}
    for name in rows[0]:
        texts = [row[name] for row in rows]
        if name in names:
            found[name] = array(texts, kind)
        elif name in TEXTS:
            found[name] = pa.array([text or None for text in texts])
        else:
            found[name] = array(texts, pa.int64() if name == TIME else pa.float64())
    return found


OTHERS = {
    "trip_end_timestamp": pa.array([datetime.date(2014, 5, 1)] * NUM_ROWS),
    "pickup_location": pa.array([{"lat": 41.9}] * NUM_ROWS),
    "dropoff_location": pa.array([[1.0, 2.0]] * NUM_ROWS),
    "tolls": pa.array([True] * NUM_ROWS),
    "__index_level_0__": pa.array(range(NUM_ROWS)),
}


def portal_name(name: str) -> str:
    """Return the name of a column in the city's portal."""
    return name.replace("pickup_latitude", "pickup_centroid_latitude").replace("_", " ").title()


ALL = ("trip_seconds", "pickup_latitude", TIME, TRACT, *TEXTS, *AMOUNTS, *AREAS)
TYPES = [
    ((), None),
    *(
        (ALL, kind)
        for kind in (
            *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
            pa.dictionary(pa.int32(), pa.string()),
        )
    ),
    (AMOUNTS, pa.dictionary(pa.int32(), pa.float64())),
    *(
        (AMOUNTS, kind)
        for kind in (
            *(pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(38, 9), pa.decimal256(50, 4)),
            pa.float32(),
        )
    ),
    (("trip_miles", *AREAS), pa.float16()),
    *(
        (AREAS, kind)
        for kind in (
            *(pa.int8(), pa.uint8(), pa.int16(), pa.uint16()),
            *(pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
        )
    ),
    *(([TIME], kind) for kind in (pa.uint64(), pa.float64(), pa.decimal128(24, 3))),
]


@pytest.mark.parametrize(("names", "kind"), TYPES)
def test_a_parquet_file_of_any_types_gives_the_examples_of_the_same_csv(
    same, write, rows, names, kind
):
    same(write(typed(rows, names, kind)))


CHANGES: dict[str, Callable[[Columns], Columns]] = {
    "not-a-number for missing": lambda columns: {
        **columns,
        TRACT: pa.array([math.nan] * NUM_ROWS),
    },
    "a column of nulls": lambda columns: {**columns, TRACT: pa.nulls(NUM_ROWS)},
    "other columns of any type": lambda columns: OTHERS | columns,
    "the portal's names, in another order": lambda columns: {
        portal_name(name): columns[name] for name in reversed(columns)
    },
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_columns_of_a_parquet_file_give_the_same_examples(same, write, rows, change):
    same(write(change(typed(rows)), row_group_size=50, version="1.0", use_dictionary=False))


def walls(rows: Rows) -> list[datetime.datetime]:
    """Return the naive wall times."""
    return [datetime.datetime.fromtimestamp(int(r[TIME]), datetime.UTC).replace(tzinfo=None)
            for r in rows]  # fmt: skip


def instants(rows: Rows) -> list[datetime.datetime]:
    """Return the instants of the city's wall times."""
    return [wall.replace(tzinfo=CITY).astimezone(datetime.UTC) for wall in walls(rows)]


@pytest.mark.parametrize(("unit", "options"), [("s", {}), ("us", {}), ("ns", {}), ("ns", INT96)])
def test_naive_timestamps_stay_as_they_are(same, write, rows, unit, options):
    times = pa.array(walls(rows)).cast(pa.timestamp(unit))
    manifest = same(write({**typed(rows), TIME: times}, **options))
    assert manifest["times"]["rows_converted_from"] == {}


SPARK = {"metadata": {"org.apache.spark.sql.parquet.row.metadata": "{}"}, **INT96}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *(("us UTC", {}), ("s America/Chicago", {}), ("ms +00:00", {}), ("ns -05:00", {})),
        *(("ms Europe/Berlin", {}), ("s Asia/Kolkata", {}), ("ns UTC", {})),
        *(("us UTC", {"store_schema": False}), ("us UTC", SPARK)),
    ],
)
def test_timestamps_with_a_zone_become_the_citys_wall_time(same, write, rows, kind, options):
    unit, zone = kind.split()
    times = pa.array(instants(rows), pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone))
    manifest = same(write({**typed(rows), **OTHERS, TIME: times}, **options))
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


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("Asia/Tokyo", [9 + 18 / 60 + 59 / 3600, 9]), ("Etc/GMT+5", [-5, -5])],  # local mean time
)
def test_instants_at_the_ends_of_the_calendar_have_a_wall_time(zone, hours):
    ends = pa.array([-62_135_596_800, 253_402_300_799])  # of the years 1 and 9999
    found = wall_times(ends.view(pa.timestamp("s", "UTC")), Timestamp("t", time_zone=zone))
    shifts = pc.subtract(found.cast(pa.int64()), ends).to_pylist()
    assert shifts == [round(3600 * hour) for hour in hours]


def test_times_beyond_nanoseconds_are_impossible(run, write, rows):
    times = pa.array([datetime.datetime(2600, 1, 1), *walls(rows)[1:]], pa.timestamp("us"))
    found = run("taxi", write({**typed(rows), TIME: times}, **INT96))
    assert found.manifest["quarantine"]["by_column"] == {TIME: 1}


def test_the_time_zone_is_an_option(same, write, rows):
    times = pa.array(walls(rows)).cast(pa.timestamp("us", "UTC"))  # BigQuery's way
    manifest = same(write({**typed(rows), TIME: times}), time_zone="UTC")
    assert manifest["times"]["wall_time_of"] == "UTC"


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_a_date_is_its_midnight(same, write, rows, kind):
    first, seconds = datetime.date(2014, 1, 1), 1_388_534_400
    days = [first + datetime.timedelta(at) for at in range(NUM_ROWS)]
    plain = [{**row, TIME: str(seconds + 86_400 * at)} for at, row in enumerate(rows)]
    same(write({**typed(rows), TIME: pa.array(days, kind)}), plain)


def test_a_uuid_splits_rows_as_its_text(same, write, rows):
    keys = [uuid.UUID(int=number) for number in range(len(rows))]
    plain = [{**row, "unique_key": str(key)} for row, key in zip(rows, keys, strict=True)]
    column = pa.array([key.bytes for key in keys], pa.binary(16))
    same(write({**typed(rows), "unique_key": column}), plain)
    same(write({**typed(rows), "unique_key": pa.ExtensionArray.from_storage(pa.uuid(), column)}),
         plain)  # fmt: skip


def with_more(row: dict[str, str], at: int) -> dict[str, str]:
    """Return a row with an index and more columns, whole numbers with .0, in another order."""
    whole = {name: f"{row[name]}.0" for name in (TIME, "trip_seconds")}
    return {"": str(at), "tolls": "x", "Extras": "", **dict(reversed((row | whole).items()))}


@pytest.mark.parametrize("name", [str.upper, portal_name, lambda name: f" {name}  "])
def test_csv_from_another_source_gives_the_same_examples(tmp_path, same, rows, name):
    plain = [with_more(row, at) for at, row in enumerate(rows)]
    other = [{name(key): value for key, value in row.items()} for row in plain]
    style = {"encoding": "utf-8-sig", "quoting": csv.QUOTE_ALL}
    same(write_table(tmp_path / "foreign.csv", other, **style))


@pytest.mark.parametrize(
    ("zone", "form"),
    [
        (None, "%Y-%m-%dT%H:%M:%S.000"),
        (None, "%Y-%m-%d %H:%M:%S UTC"),  # BigQuery's
        (None, "%m/%d/%Y %I:%M:%S %p"),  # the portal's
        (CITY, ""),  # as str() writes them
        (datetime.UTC, "%Y-%m-%dT%H:%M:%SZ"),
        (datetime.UTC, "%Y-%m-%d %H:%M:%S+00"),
    ],
)
def test_times_as_texts_give_the_same_examples(tmp_path, same, rows, zone, form):
    times = [one.astimezone(zone) for one in instants(rows)] if zone else walls(rows)
    other = [{**row, TIME: format(time, form)} for row, time in zip(rows, times, strict=True)]
    same(write_table(tmp_path / "foreign.csv", other))


@pytest.mark.parametrize(
    "case",
    [
        ("trip_seconds", 2**63 + 1, pa.uint64(), "9.22337203685478e+18 is impossible"),
        (TIME, 1_400_000_400.5, pa.float64(), "1400000400.5 is not a whole number"),
        (TIME, 1_400_000_400_000, pa.int64(), "1400000400000 is impossible; allowed: 946,684,800"),
        (TIME, math.inf, pa.float64(), "inf is impossible"),
        ("fare", -1.5e308, pa.float64(), "-1.5e+308 is impossible; allowed: numbers of float32"),
        ("company", b"Bl\xff", pa.binary(), r"'Bl\\xff' is not UTF-8"),
        ("fare", "abc", pa.string(), "'abc' is not a number"),
        ("fare", "", pa.string(), "is missing"),
        ("trip_seconds", " 9x", pa.string(), "' 9x' is not a number"),
        ("trip_miles", b"7,5", pa.large_binary(), "'7,5' is not a number"),
        ("pickup_community_area", b"7.5", pa.large_binary(), "7.5 is not a whole number"),
        (TIME, b"yesterday", pa.binary(), "'yesterday' is not a time"),
        (TIME, "1400000400.5", pa.string(), "'1400000400.5' is not a time"),
    ],
)
def test_a_bad_value_of_parquet_is_one_row_in_quarantine(run, write, rows, case):
    column, value, kind, reason = case
    good = array([row[column] for row in rows[1:]], kind)
    values = pa.concat_arrays([pa.array([value], kind), good])
    path = write({**typed(rows), column: values})
    [entry] = run("taxi", path).quarantine
    assert (entry["file"], entry["row"], entry["column"]) == (str(path), 1, column)
    assert reason in entry["reason"]
    if kind == pa.string():
        assert entry["record"][column] == value


def test_a_bad_row_shows_a_time_of_nanoseconds(run, write, rows):
    times = pa.array([int(row[TIME]) * 10**9 + 1 for row in rows], pa.timestamp("ns"))
    rows[3]["fare"] = "-1"
    [entry] = run("taxi", write({**typed(rows), TIME: times})).quarantine
    assert entry["record"][TIME] == "2014-11-02 00:45:00.000000001"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("fare", True),
        ("fare", [7.5]),
        ("fare", {"amount": 7.5}),
        ("trip_seconds", datetime.timedelta(seconds=7)),
        ("trip_miles", datetime.datetime(2014, 5, 1)),
        (TIME, datetime.time(7)),
        ("company", ["Blue"]),
        ("payment_type", datetime.date(2014, 5, 1)),
    ],
)
def test_a_type_that_a_column_cannot_have_is_refused_by_name(run, write, rows, column, value):
    path = write({**typed(rows), column: pa.array([value] * NUM_ROWS)})
    kind = parquet.read_schema(path).field(column).type
    with pytest.raises(DataError) as caught:
        run("taxi", path)
    assert f"{path}: the column {column!r} has the type {kind}; allowed are" in str(caught.value)


def test_damage_in_a_parquet_file_is_reported_with_file_and_row(run, write, rows):
    path = write(typed(rows), compression="gzip", row_group_size=60)
    content = bytearray(path.read_bytes())
    start = parquet.read_metadata(path).row_group(1).column(0).data_page_offset
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"^\S*t\.parquet, from row 61 on, cannot be read: "):
        run("taxi", path)


def test_times_are_counted_of_the_rows_that_are_used(tmp_path, run):
    moments = pa.array([*range(100)], pa.timestamp("s", "UTC"))
    parquet.write_table(
        pa.table({"at": moments, "y": [number % 2 for number in range(100)]}),
        tmp_path / "rows.parquet",
    )
    table = 'Table([Timestamp("at")], label=Binary("y"))'
    times = run(table, tmp_path / "rows.parquet", max_examples=60).manifest["times"]
    assert times["rows_converted_from"] == {"UTC": 60}
