import json
import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import describe
from components.prepare_examples.statistics.drift import measure_drift
from components.prepare_examples.statistics.schema import find_anomalies, infer_schema
from trainer import Json


@pytest.fixture
def read(run, taxi_rows):
    """Prepare generated trips with some values changed."""
    return lambda change=None, **options: run(
        "taxi", [{**row, **(change or {})} for row in taxi_rows(200)], **options
    )


def content_of(folder: Path) -> Json:
    return json.loads((folder / "anomalies.json").read_text())


def schema_of(folder: Path) -> tuple[schema_pb2.Schema, dict[str, schema_pb2.Feature]]:
    schema = text_format.Parse((folder / "schema.pbtxt").read_text(), schema_pb2.Schema())
    return schema, {feature.name: feature for feature in schema.feature}


def test_the_inferred_schema_has_types_presence_and_values(read):
    found = read()
    _, features = schema_of(found.folder)
    assert features["fare"].type == schema_pb2.FLOAT
    assert features["big_tipper"].type == schema_pb2.INT
    assert features["fare"].presence.min_fraction == pytest.approx(1 - 3 / found.counts[0])
    assert features["company"].presence.min_fraction == 0
    assert list(features["payment_type"].string_domain.value) == ["Cash"]


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("fare", {"float_domain": {"max": 12}}, r"train fare: .*16\.0.* 12\.0"),
        ("company", {"presence": {"min_fraction": 1}}, "train company: is present in 79"),
        ("fare", {"type": schema_pb2.INT}, "fare: .*FLOAT.*INT"),
        ("payment_type", {"string_domain": {"value": ["Credit Card"]}}, "payment_type: .*'Cash'"),
        ("weather", {"type": schema_pb2.BYTES}, r"weather: .*not in the data"),
    ],
)
def test_an_error_against_a_schema_stops_the_run_unless_nothing_blocks(
    tmp_path, read, name, change, problem
):
    schema, features = schema_of(read().folder)
    feature = features.get(name) or schema.feature.add(name=name)
    for field in change:
        feature.ClearField(field)
    feature.MergeFrom(schema_pb2.Feature(**change))
    path = tmp_path / "wanted.pbtxt"
    path.write_text(text_format.MessageToString(schema))
    with pytest.raises(DataError, match=problem):
        read(schema=str(path))
    assert len(list(tmp_path.glob("*out-*"))) == 1
    found = content_of(read(schema=str(path), block_on="none").folder)["anomalies"]
    lines = [f"{a['split']} {a['feature']}: {a['reason']}" for a in found]
    assert re.search(problem, "\n".join(lines))


def test_a_warning_stops_the_run_only_with_block_on(read):
    found = content_of(read().folder)["anomalies"]
    assert "pickup_census_tract" in {a["feature"] for a in found}
    with pytest.raises(DataError, match=r"pickup_census_tract: .*never present"):
        read(block_on="warning")


def test_an_invalid_schema_or_baseline_is_refused(tmp_path, read):
    (tmp_path / "s.pbtxt").write_text("feature { nam")
    with pytest.raises(DataError, match=r"s\.pbtxt .*schema"):
        read(schema=str(tmp_path / "s.pbtxt"))
    with pytest.raises(DataError, match=r"baseline .*statistics\.json"):
        read(baseline=str(tmp_path))


def test_a_shift_is_a_warning_with_its_distance(read, taxi_rows):
    baseline = str(read().folder)
    assert all(d["psi"] == 0 for d in content_of(read(baseline=baseline).folder)["drift"])

    found = read({"fare": "25", "payment_type": "Mobile"}, baseline=baseline)
    anomalies = content_of(found.folder)["anomalies"]
    psi = {(a["feature"], a["reason"].split()[0]) for a in anomalies}
    assert {("fare", "psi"), ("payment_type", "psi")} <= psi
    assert "payment_type: Mobile: 0 → 100 %" in found.report
    drift = found.manifest["drift"]
    assert {words.split(":")[0] for words in drift} == {"fare", "payment_type"}
    assert describe(found.manifest)["drift"].splitlines() == drift
    assert "<th class=s3>baseline" in found.report
    assert "psi is" in found.report


@pytest.mark.parametrize(("threshold", "words"), [(0.5, {"psi"}), (99, set())])
def test_drift_below_the_threshold_is_not_an_anomaly(read, threshold, words):
    options = {"baseline": str(read().folder), "drift_threshold": threshold}
    found = content_of(read({"payment_type": "Mobile"}, **options).folder)["anomalies"]
    drifted = {a["reason"].split()[0] for a in found if a["feature"] == "payment_type"}
    assert drifted - {"is"} == words


def feature(kind: str, top_values=(), *, num_unique=5000, missing=0, count=1000, **more) -> Json:
    """Return the statistics of values."""
    counts = {"num_present": count - missing, "num_missing": missing, "num_unique": num_unique}
    return {"type": kind, **counts, "top_values": [*top_values], "quantiles": None, **more}


def statistics(**features: Json) -> Json:
    return {"splits": {"train": {"features": features}}}


def test_drift_names_the_value_whose_share_changed_most():
    before = statistics(
        payment_type=feature("STRING", [["Cash", 1000]]),
        trip_start_hour=feature("INT", [[7, 500], [8, 500]], num_unique=2),
        fare=feature("FLOAT", quantiles=[*range(101)]),
    )
    after = statistics(
        payment_type=feature("STRING", [["Cash", 862], ["Mobile", 138]]),
        trip_start_hour=feature("INT", [[7, 900], [8, 100]], num_unique=2),
        fare=feature("FLOAT", quantiles=[50, *range(90, 150), *[150] * 40]),
    )
    assert {drift.words for drift in measure_drift(after, before)} == {
        "payment_type: Mobile: 0 → 13.8 %",
        "trip_start_hour: 7: 50 → 90 %",
        "fare: above 90: 9.9 → 98 %",
    }
    gone = statistics(fare=feature("FLOAT", missing=999))
    assert "fare: missing: 0 → 99.9 %" in {drift.words for drift in measure_drift(gone, before)}


@pytest.mark.parametrize(
    ("is_time", "words"),
    [
        (False, "above 1,357,000,090: 9.9 → 100 %"),
        (True, "above 2013-01-01 00:28: 9.9 → 100 %"),
    ],
)
def test_drift_writes_numbers_and_times_as_people_do(is_time, words):
    before, after = (
        statistics(start=feature("INT", quantiles=seconds, is_time=is_time))
        for seconds in ([1_357_000_000 + at for at in range(101)], [1_358_000_000] * 101)
    )
    [drift] = measure_drift(after, before)
    assert drift.words == f"start: {words}"


def test_the_index_is_that_of_the_definition():
    after, before = (
        statistics(f=feature("STRING", [["a", count], ["b", 1000 - count]], num_unique=2))
        for count in (500, 250)
    )
    (drift,) = measure_drift(after, before)
    assert drift.psi == pytest.approx(0.2747, abs=1e-4)


@pytest.mark.parametrize(
    ("counts", "num_errors"),
    [
        ({"train": (57, 0, 1), "eval": (9, 1, 1)}, 0),
        ({"train": (57, 0, 1), "eval": (8, 2, 2)}, 0),
        ({"train": (57, 0, 1), "eval": (4, 6, 1)}, 1),
        ({"train": (57, 0, 1), "eval": (10, 0, 9)}, 0),
        ({"train": (50_000, 0, 1), "eval": (4_999, 1, 1)}, 0),
        ({"train": (50_000, 0, 1), "eval": (4_990, 10, 1)}, 1),
    ],
)
def test_deviations_that_chance_explains_are_not_errors(counts, num_errors):
    """The numbers of examples with the feature, without it, and with a value of that split only."""
    content = {"splits": {}}
    for name, (present, missing, new) in counts.items():
        numbers = {"count": present + missing, "missing": missing, "num_unique": 2}
        one = feature("STRING", [["a", present - new], [name, new]], **numbers)
        content["splits"][name] = {"features": {"f": one}, "num_examples": 0}
    found = find_anomalies(content, infer_schema(content), is_inferred=True)
    assert sum(anomaly.severity == "error" for anomaly in found) == num_errors
