"""Settings of prepare_examples and its command line."""

import json
from pathlib import Path

import pytest

from components.prepare_examples.beam.runner_flags import checked_flags, runner_flags
from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.shards import TARGET_BYTES
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("num_bytes", "split", "expected"),
    [(1, "train", 4), (10 * TARGET_BYTES + 1, "train", 12), (1, "eval", 1), (1, "test", 2)],
)
def test_there_are_files_of_the_target_size_and_of_train_an_even_number(num_bytes, split, expected):
    assert PrepareOptions().planned_shards(num_bytes, split=split) == expected


def test_a_given_number_of_shards_wins():
    assert PrepareOptions(num_shards={"train": 7}).planned_shards(10) == 7


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "prepare is .*JSON object"),
        (
            '{"compresion": "none"}',
            "'compresion'; did you mean 'compression'.*--all` lists",
        ),
        ('{"ratios": {"train": 1}}', "give one for each of"),
        ('{"ratios": {"train": 1, "eval": 0, "test": 1}}', "the eval split would be empty"),
        ('{"drift_threshold": -1}', "drift_threshold is -1; .*from 0"),
        ('{"block_on": "all"}', "block_on is 'all'; allowed are error, warning, none"),
        ('{"num_shards": {"train": 0}}', "num_shards.train is 0; it must be a whole number from"),
        ('{"files": ["trips.csv"]}', "prepare.files has 'trips.csv'.*absolute path"),
        ('{"schema": "s.pbtxt"}', "prepare.schema has 's.pbtxt'.*absolute path"),
        ('{"source": "spanner"}', "source is 'spanner'; allowed are files, bigquery"),
        ('{"source": "bigquery", "project": "p"}', "limit is 0; BigQuery needs a number of rows"),
        ('{"source": "bigquery", "limit": 5}', "project is empty"),
        (
            '{"source": "bigquery", "limit": 5, "project": "p", "files": "/a"}',
            "files is .*'bigquery'; drop one",
        ),
        ('{"limit": 5}', "limit is 5; it needs source to be 'bigquery'"),
        ('{"dates": ["2016-01-01"]}', "dates is .*first and last day"),
        ('{"dates": ["a", "b"]}', "dates is .*first and last day"),
        ('{"dates": ["2016-01-01\' OR 1=1", "2017"]}', "dates is .*first and last day"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(text, problem):
    with pytest.raises((ConfigError, DataError), match=problem):
        PrepareOptions.from_json(text)


def test_absolute_paths_are_accepted_from_json():
    files = ("/data/a.csv", "gs://bucket/b.csv")
    assert PrepareOptions.from_json(json.dumps({"files": files})).files == files


@pytest.mark.parametrize(
    ("workload", "options"),
    [
        ("mnist", {"schema": "s.pbtxt"}),
        ("cifar10", {"baseline": "earlier"}),
        ("mnist", {"block_on": "warning"}),
        ("cifar10", {"drift_threshold": 0.5}),
        ("mnist", {"files": ["a.csv"]}),
        ("cifar10", {"ratios": {"train": 2, "eval": 1, "test": 1}}),
        ("mnist", {"split_key": ["unique_key"]}),
        ("cifar10", {"ignore_columns": ["weather"]}),
        ("mnist", {"source": "bigquery", "project": "p", "limit": 5}),
    ],
)
def test_table_settings_are_refused_for_images(tmp_path, workload, options):
    with pytest.raises(
        ConfigError, match=f"{next(iter(options))} is .* leave it out for {workload}"
    ):
        prepare(workload, output_dir=tmp_path / "out", options=PrepareOptions(**options))


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
)
def test_a_wrong_flag_of_beam_is_an_error_before_anything_starts(flags, problem):
    with pytest.raises(DataError, match=problem):
        checked_flags(flags, Path("out"))


def test_dataflow_stages_in_the_bucket_of_the_output():
    found = checked_flags(DATAFLOW, Path("/gcs/bucket/run/examples"))
    assert found == (*DATAFLOW, "--temp_location=gs://bucket/dataflow")
    given = (*DATAFLOW, "--temp_location=gs://other/x")
    assert checked_flags(given, Path("/gcs/bucket/run/examples")) == given
