"""Settings of prepare_examples and its command line."""

import json
import sys
from pathlib import Path

import pytest

from components.prepare_examples.beam.runner_flags import checked_flags, runner_flags
from components.prepare_examples.cli import main
from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.shards import plan_num_shards
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("num_bytes", "num_workers", "expected"),
    [(1, 1, 2), (1, 3, 6), (10_000, 3, 12), (100, 8, 16)],
    ids=["tiny", "workers", "size, rounded up", "never fewer than workers"],
)
def test_there_are_files_for_every_worker_and_of_the_target_size(num_bytes, num_workers, expected):
    found = plan_num_shards(num_bytes, num_workers=num_workers, parallelism=2, target_bytes=1000)
    assert found == expected
    assert found % num_workers == 0


def test_a_given_number_of_shards_wins():
    assert PrepareOptions(num_shards={"train": 7}, num_workers=4).planned_shards(10) == 7
    assert PrepareOptions(num_workers=4).planned_shards(10) == 8


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "prepare is not JSON"),
        ('{"compresion": "none"}', "'compresion'; did you mean 'compression'.*settings` lists"),
        ('{"ratios": {"train": 1}}', "give one for each of"),
        ('{"ratios": {"train": 1, "eval": 0, "test": 1}}', "the eval split would be empty"),
        ('{"drift_threshold": -1}', "drift_threshold is -1; .*from 0"),
        ('{"block_on": "all"}', "block_on is 'all'; allowed are error, warning, none"),
        ('{"num_workers": 0}', "num_workers is 0; it must be a whole number from 1"),
        ('{"files": ["trips.csv"]}', "prepare.files has 'trips.csv'.*absolute path"),
        ('{"schema": "s.pbtxt"}', "prepare.schema has 's.pbtxt'.*absolute path"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(text, problem):
    with pytest.raises((ConfigError, DataError), match=problem):
        PrepareOptions.from_json(text)


def test_absolute_paths_are_accepted_from_json():
    files = ("/data/a.csv", "gs://bucket/b.csv")
    assert PrepareOptions.from_json(json.dumps({"files": files})).files == files


@pytest.mark.parametrize("workload", ["mnist", "cifar10"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema", "s.pbtxt"),
        ("baseline", "earlier"),
        ("block_on", "warning"),
        ("drift_threshold", 0.5),
        ("files", ["a.csv"]),
        ("ratios", {"train": 2, "eval": 1, "test": 1}),
        ("split_key", ["unique_key"]),
        ("ignore_columns", ["weather"]),
        ("source", "bigquery"),
    ],
)
def test_table_settings_are_refused_for_images(tmp_path, workload, name, value):
    more = {"project": "p", "limit": 5} if name == "source" else {}
    options = PrepareOptions(**{name: value}, **more)
    problem = f"{name} is .* leave it out for {workload}"
    with pytest.raises(ConfigError, match=problem):
        prepare(workload, output_dir=tmp_path / "out", data_dir=tmp_path, options=options)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("train", "ratios: 'train' is not allowed; write NAME=NUMBER"),
        ("trian=1", "ratios are given for ['trian']; give one for each of"),
    ],
)
def test_wrong_ratios_are_named(tmp_path, capsys, text, problem):
    arguments = ["--workload", "taxi", "--output-dir", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="2"):
        sys.exit(main([*arguments, "--ratios", text]))
    assert problem in capsys.readouterr().err


def test_the_runners_flags():
    assert runner_flags("") == ()
    assert runner_flags("", num_workers=1) == ("--direct_num_workers=1",)
    assert runner_flags("FlinkRunner") == ("--runner=FlinkRunner",)
    assert runner_flags("", num_workers=2) == (
        "--direct_num_workers=2",
        "--direct_running_mode=multi_threading",
    )


DATAFLOW = ("--runner=DataflowRunner", "--project=p", "--region=r", "--sdk_container_image=i:1")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--direct_num_wrokers=2"], "--direct_num_wrokers=2.* '--direct_num_workers'"),
        (["--direct_num_workers=two"], "argument --direct_num_workers: invalid int value: 'two'"),
        (["--runner=Flink"], "runner is 'Flink'; allowed are DirectRunner, DataflowRunner, Flink"),
        (DATAFLOW[:2], "DataflowRunner needs --region"),
        (DATAFLOW[:3], "DataflowRunner needs an image .* --sdk_container_image"),
        (DATAFLOW, "temp_location is ''; DataflowRunner stages in a bucket"),
        ([*DATAFLOW, "--temp_location=/tmp"], "temp_location is '/tmp'; DataflowRunner stages"),
    ],
    ids=["unknown", "value", "runner", "region", "image", "no bucket", "no gs"],
)
def test_a_wrong_flag_of_beam_is_an_error_before_anything_starts(flags, problem):
    with pytest.raises(DataError, match=problem):
        checked_flags(flags, Path("out"))


def test_dataflow_stages_in_the_bucket_of_the_output():
    found = checked_flags(DATAFLOW, Path("/gcs/bucket/run/examples"))
    assert found == (*DATAFLOW, "--temp_location=gs://bucket/dataflow")
    given = (*DATAFLOW, "--temp_location=gs://other/x")
    assert checked_flags(given, Path("/gcs/bucket/run/examples")) == given


def test_a_dry_run_is_for_bigquery(tmp_path, capsys):
    arguments = ["--workload", "taxi", "--files", "a.csv", "--output-dir", str(tmp_path / "out")]
    assert main([*arguments, "--dry-run"]) == 2
    assert "prints the query to BigQuery" in capsys.readouterr().err
