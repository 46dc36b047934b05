import json
import re

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.prepare_examples.cli import main
from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import describe, prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.statistics.drift import measure_drift
from components.prepare_examples.statistics.schema import find_anomalies, infer_schema


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """A folder for the unchanged trips, which are prepared once."""
    return tmp_path_factory.mktemp("unchanged") / "out"


@pytest.fixture
def run(tmp_path, taxi_rows, write_csv, unchanged):
    """Prepare generated trips, each changed by a function, into the named folder.

    Without arguments return a folder with the unchanged trips, in which nothing may be written.
    """

    def do(name="out", change=None, **options):
        if (name, change, options) == ("out", None, {}):
            if not unchanged.exists():
                prepare_rows(unchanged, None, {})
            return unchanged
        return prepare_rows(tmp_path / name, change, options)

    def prepare_rows(folder, change, options):
        rows = [{**row, **(change(row) if change else {})} for row in taxi_rows(200)]
        chosen = PrepareOptions(files=[str(write_csv(rows))], **options)
        prepare("taxi", output_dir=folder, data_dir=tmp_path, options=chosen)
        return folder

    return do


def content_of(folder):
    return json.loads((folder / "anomalies.json").read_text())


def edited_schema(folder, path, edit):
    schema = text_format.Parse((folder / "schema.pbtxt").read_text(), schema_pb2.Schema())
    edit({feature.name: feature for feature in schema.feature}, schema)
    path.write_text(text_format.MessageToString(schema))
    return str(path)


def test_the_inferred_schema_has_types_presence_and_values(run):
    folder = run()
    schema = text_format.Parse((folder / "schema.pbtxt").read_text(), schema_pb2.Schema())
    features = {feature.name: feature for feature in schema.feature}
    num_train = json.loads((folder / "manifest.json").read_text())["splits"]["train"][
        "num_examples"
    ]
    assert features["fare"].type == schema_pb2.FLOAT
    assert features["big_tipper"].type == schema_pb2.INT
    assert features["fare"].presence.min_fraction == pytest.approx(1 - 3 / num_train)
    assert features["company"].presence.min_fraction == 0
    assert list(features["payment_type"].string_domain.value) == ["Cash"]


def narrow(features, _):
    features["fare"].float_domain.max = 12


def require(features, _):
    features["company"].presence.min_fraction = 1.0


def retype(features, _):
    features["fare"].type = schema_pb2.INT


def unknown_value(features, _):
    features["payment_type"].string_domain.value[:] = ["Credit Card"]


def another_feature(_, schema):
    schema.feature.add(name="weather", type=schema_pb2.BYTES)


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (narrow, r"train fare: .*16\.0.* 12\.0"),
        (require, "train company: is present in 79"),
        (retype, "fare: .*FLOAT.*INT"),
        (unknown_value, r"payment_type: .*'Cash'"),
        (another_feature, r"weather: .*not in the data"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_error_against_a_schema_stops_the_run_by_default(tmp_path, run, edit, problem):
    schema = edited_schema(run(), tmp_path / "wanted.pbtxt", edit)
    with pytest.raises(DataError, match=problem):
        run("other", schema=schema)
    assert not (tmp_path / "other").exists()


def test_an_error_against_a_schema_is_only_reported_if_nothing_blocks(tmp_path, run):
    schema = edited_schema(run(), tmp_path / "wanted.pbtxt", narrow)
    found = content_of(run("other", schema=schema, block_on="none"))["anomalies"]
    [reason] = [a["reason"] for a in found if (a["split"], a["feature"]) == ("train", "fare")]
    assert re.search(r"16\.0.* 12\.0", reason)


def test_a_warning_stops_the_run_only_with_block_on(run):
    folder = run()
    assert "pickup_census_tract" in {a["feature"] for a in content_of(folder)["anomalies"]}
    with pytest.raises(DataError, match=r"pickup_census_tract: .*never present"):
        run("other", block_on="warning")


def test_an_invalid_schema_is_refused(tmp_path, run):
    (tmp_path / "s.pbtxt").write_text("feature { nam")
    with pytest.raises(DataError, match=r"s\.pbtxt .*schema"):
        run(schema=str(tmp_path / "s.pbtxt"))


def test_the_same_data_has_not_drifted(run):
    baseline = str(run())
    assert all(d["psi"] == 0 for d in content_of(run("other", baseline=baseline))["drift"])


def test_a_shift_is_a_warning_with_its_distance(run):
    baseline = str(run())

    def dearer(row):
        return {"fare": str(float(row["fare"]) * 3), "payment_type": "Mobile"}

    folder = run("other", change=dearer, baseline=baseline)
    found = {(a["feature"], a["reason"].split()[0]) for a in content_of(folder)["anomalies"]}
    assert {("fare", "psi"), ("payment_type", "psi")} <= found
    page = (folder / "report.html").read_text()
    assert "payment_type: Mobile: 0 → 100 %" in page
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {words.split(":")[0] for words in manifest["drift"]} == {"fare", "payment_type"}
    assert describe(manifest)["drift"].splitlines() == manifest["drift"]
    assert "<th class=s3>baseline" in page
    assert "psi is" in page


def test_drift_below_the_threshold_is_not_an_anomaly(tmp_path, taxi_rows, write_csv):
    before, after = tmp_path / "before", tmp_path / "after"
    path = str(write_csv(taxi_rows(200)))
    common = ["--workload", "taxi", "--data-dir", str(tmp_path), "--files", path]
    assert main([*common, "--output-dir", str(before)]) == 0
    write_csv([{**row, "payment_type": "Mobile"} for row in taxi_rows(200)])
    flags = ["--output-dir", str(after), "--baseline", str(before)]
    for threshold, names in (("0.5", {"psi"}), ("99", set())):
        assert main([*common, *flags, "--drift-threshold", threshold]) == 0
        found = content_of(after)["anomalies"]
        drifted = {a["reason"].split()[0] for a in found if a["feature"] == "payment_type"}
        assert drifted - {"is"} == names


def test_drift_names_the_value_whose_share_changed_most():
    def statistics(texts, hours, quantiles, missing=0):
        common = {"num_present": 1000 - missing, "num_missing": missing}
        features = {
            "payment_type": {"type": "STRING", **common, "top_values": texts},
            "trip_start_hour": {
                **{"type": "INT", **common, "num_unique": len(hours)},
                **{"top_values": hours, "quantiles": None},
            },
            "fare": {
                **{"type": "FLOAT", **common, "num_unique": 5000},
                **{"top_values": [], "quantiles": quantiles},
            },
        }
        return {"splits": {"train": {"features": features}}}

    before = statistics([["Cash", 1000]], [[7, 500], [8, 500]], [*range(101)])
    after = statistics(
        [["Cash", 862], ["Mobile", 138]], [[7, 900], [8, 100]], [50, *range(90, 150), *[150] * 40]
    )
    found = {drift.feature: drift.words for drift in measure_drift(after, before)}
    assert found["payment_type"] == "payment_type: Mobile: 0 → 13.8 %"
    assert found["trip_start_hour"] == "trip_start_hour: 7: 50 → 90 %"
    assert found["fare"] == "fare: above 90: 9.9 → 98 %"
    gone = measure_drift(statistics([["Cash", 1000]], [[7, 1]], None, missing=999), before)
    assert "fare: missing: 0 → 99.9 %" in {drift.words for drift in gone}


def sparse_statistics(counts):
    """Return for each split how many examples have a feature and how many lack it."""
    features = {
        name: {"type": "STRING", "num_present": present, "num_missing": missing}
        | {"num_unique": 2, "top_values": [["a", present - new], [name, new]]}
        for name, (present, missing, new) in counts.items()
    }
    return {
        "splits": {
            name: {"features": {"f": feature}, "num_examples": 0}
            for name, feature in features.items()
        }
    }


@pytest.mark.parametrize(
    ("is_time", "words"),
    [
        (False, "above 1,357,000,090: 9.9 → 100 %"),
        (True, "above 2013-01-01 00:28: 9.9 → 100 %"),
    ],
    ids=["number", "time"],
)
def test_drift_writes_numbers_and_times_as_people_do(is_time, words):
    def statistics(quantiles):
        feature = {"type": "INT", "num_present": 1000, "num_missing": 0, "num_unique": 5000}
        feature |= {"top_values": [], "quantiles": quantiles, "is_time": is_time}
        return {"splits": {"train": {"features": {"start": feature}}}}

    before = [1_357_000_000 + second for second in range(101)]
    [drift] = measure_drift(statistics([1_358_000_000] * 101), statistics(before))
    assert drift.words == f"start: {words}"


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
    statistics = sparse_statistics(counts)
    found = find_anomalies(statistics, infer_schema(statistics), is_inferred=True)
    assert sum(anomaly.severity == "error" for anomaly in found) == num_errors


def test_a_small_table_passes_the_schema_inferred_from_it(tmp_path, taxi_rows, write_csv):
    rows = taxi_rows(72)
    options = PrepareOptions(files=[str(write_csv(rows))])
    prepare("taxi", output_dir=tmp_path / "first", data_dir=tmp_path, options=options)
    test = tmp_path / "first" / "test-00000-of-00004.tfrecord.gz"
    record = next(tf.data.TFRecordDataset(str(test), "GZIP").as_numpy_iterator())
    features = tf.train.Example.FromString(record).features.feature
    start = features["trip_start_timestamp"].int64_list.value[0]
    (row,) = (row for row in rows if row["trip_start_timestamp"] == str(start))
    row["trip_miles"] = ""
    write_csv(rows)
    prepare("taxi", output_dir=tmp_path / "out", data_dir=tmp_path, options=options)
    reasons = [a["reason"] for a in content_of(tmp_path / "out")["anomalies"]]
    assert not [reason for reason in reasons if "is present in" in reason]


def test_an_invalid_baseline_is_refused(tmp_path, run):
    with pytest.raises(DataError, match=r"baseline .*statistics\.json"):
        run(baseline=str(tmp_path))


def test_the_index_is_that_of_the_definition():
    def statistics(counts):
        feature = {
            "type": "STRING",
            "num_present": 100,
            "num_missing": 0,
            "num_unique": 2,
            "top_values": counts,
        }
        return {"splits": {"train": {"features": {"f": feature}}}}

    (drift,) = measure_drift(statistics([["a", 50], ["b", 50]]), statistics([["a", 25], ["b", 75]]))
    assert drift.psi == pytest.approx(0.2747, abs=1e-4)


def test_the_page_needs_no_network_and_escapes_values(run):
    page = (run(change=lambda _: {"company": "<script>x"}) / "report.html").read_text()
    assert page.count("<script") == 1  # its own
    assert not re.search("https?:", page)
    assert page.count("<article ") == 18
