"""Values that are refused, with a reason, before anything starts: --set, run.yaml, other files."""

import contextlib
import json
import math
import os
import re

import pytest

from components.endpoint.watch.options import WatchOptions
from components.prepare_examples.errors import DataError
from components.shared.text.yaml_text import YamlError, read_yaml_file
from pipelines.cli import main
from pipelines.config.built_in import mnist
from pipelines.config.cluster_files import read_cluster
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import checked, declared_settings, setting_keys, with_settings
from pipelines.predictions.options import PredictOptions
from pipelines.projects.runs import try_run_file
from pipelines.schedules.file import read_schedule
from trainer.config.settings import schema_at
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

# Setting, value, and the message after the setting's name.
REFUSED = [
    ("train.seed", "1e23", "is 1{0,1}.*from 0 to 2147483647"),
    ("train.epochs", "", "is ''; .*from 1 to 100000"),
    ("train.epochs", "1e20", "is 10{20}; .*from 1 to 100000"),
    ("train.batch_size", "1e9", "is 10{9}; .*from 1 to 1048576"),
    ("train.optimizer", "", "is ''; allowed are adam"),
    ("train.best_metric", '"a\\nb"', "is 'a.nb'; .*a text on one line"),
    ("thresholds.accuracy", "2", "is 2; accuracy is always from 0 to 1"),
    ("thresholds.accuracy", "-.1", "is -0.1; accuracy is always from 0 to 1"),
    ("thresholds.loss", "1e400", "is inf; it must be a number"),
    ("thresholds.loss", "1" + "0" * 400, "is 10{400}; it must be a number"),
    ("serving.machine", "foo", "is 'foo'; it must be a machine type, as n1-.*c2-standard"),
    ("serving.machine", "n1-foo-4", "is 'n1-foo-4'; .*n1-standard-4"),
    ("serving.min_replicas", "0", "is 0; it must be a whole number from 1 to 1000"),
    ("serving.min_replicas", "1.5", "is 1.5; it must be a whole number"),
    ("serving.cpu_target", "101", "is 101; it must be a whole number from 1 to 100"),
    ("serving.accelerator_target", "50", "needs serving.accelerator"),
    ("serving.accelerator", "T4", "is 'T4'; it must be their type and number, as {type: NV"),
    ("serving.accelerator", "{count: 2}", "type is not set; .*GPU, as NVIDIA_TESLA_T4"),
    ("serving.accelerator", "{type: NVIDIA_T4}", "type is 'NVIDIA_T4'; did you .*allowed are"),
    ("serving.accelerator", "{type: NVIDIA_TESLA_T4, count: 3}", "count is 3; n1-.*takes 1 or 2"),
    ("model_name", "../x", "is '../x'; .*without quotation marks, slashes"),
    ("model_name", '"a\\nb"', "is 'a.nb'; .*120 characters on one line"),
    ("endpoint_name", "a/b", "is 'a/b'; .*without quotation marks, slashes"),
    ("model_name", "x" * 121, "is 'x{121}'; .*at most 120 characters"),
    ("gate.latency_clients", "100000", "is 100000; .*from 1 to 256"),
    ("gate.min_gain", ".nan", "is nan; it must be a number"),
    ("prepare.num_shards", "{train: 0}", "train is 0; .*from 1 to 100000"),
    ("prepare.drift_threshold", "-1", "is -1; .*from 0"),
    ("release.max_change", ".inf", "is inf; it must be a number from 0"),
    ("cluster.timeout_seconds", "1e21", r"is 1(0{21}|e\+21); .*from 1 to 2678400"),
    ("cluster.image", "a b", "is 'a b'; it must be a container image, as europe"),
    ("cluster.machine", "../../etc", "is '../../etc'; it must be a machine type"),
]


def by_set(key, value, folder):
    with_settings(mnist(), [f"{key}={value}"])


def by_run_file(key, value, folder):
    group, _, name = key.rpartition(".")
    (folder / "run.yaml").write_text(
        f"{group}:\n  {name}: {value}" if group else f"{name}: {value}"
    )
    checked(*try_run_file(mnist(), folder / "run.yaml"))


def by_dry_run(key, value, folder):
    main(["submit", "mnist", "--dry-run", "--set", f"{key}={value}", "--state-dir", str(folder)])


@pytest.mark.parametrize("give", [by_set, by_run_file, by_dry_run])
@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row[0]}={row[1][:24]}")
def test_a_value_is_refused_wherever_it_is_given(tmp_path, capsys, give, row):
    key, value, words = row
    group, _, name = key.rpartition(".")
    name = re.sub("_", "[_-]", name if group in ("train", "cluster", "prepare") else re.escape(key))
    try:
        give(key, value, tmp_path)
        message = capsys.readouterr().err
    except ConfigError as error:
        message = str(error)
    assert re.search(f"{name}[ .]{words}", message, re.DOTALL)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("mnist", "gate.slices is nope, but mnist has no columns"),
        ("taxi", "gate.slices has 'nope', but taxi has no feature 'nope'; .*it has .*fare"),
    ],
)
def test_a_slice_of_no_feature_is_refused_before_the_training(tmp_path, capsys, workload, words):
    setting = ["--set", "gate.slices=[nope]", "--state-dir", str(tmp_path)]
    assert main(["submit", workload, "--dry-run", *setting]) == 2
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workers: [", "is not YAML"),
        ("- 1", "must hold keys"),
        ("workers: 2", "workers is 2.*set it to 0"),
        ("workers: -1\nspot: maybe", r"has 2 mistakes:\n  - workers is -1.*\n  - spot is"),
        ("image: 'a b'", "image is 'a b'; it must be a container image"),
        ('image: "a\\nb"', "image is 'a.nb'; "),
        ("machine: ../../etc", "machine is '../../etc'; it must be a machine type"),
        ("machines: {chief: a\nb}", "machines.chief.machine is 'a b'; it must be a machine type"),
        ("timeout_seconds: 1e21", r"timeout_seconds is 1e\+21"),
        ("timeout_seconds: 1" + "0" * 5000, "not YAML"),
        *(
            (
                f"strategy: parameter_server\nworkers: {text}",
                f"workers is (?i:'?{text}'?|1e.23); .*whole number",
            )
            for text in ("1:30", "010", "on", "0x10", "1_000", "2026-01-01", "1e23", "true", "1.0")
        ),
        ("accelerator: {type: NVIDIA_L4, count: 1" + "0" * 30 + "}", "count is 10{30}; .*to 500"),
        (
            "workerPoolSpecs: [{replicaCount: '" + "9" * 5000 + "'}]",
            "replicaCount is '9+'; it must",
        ),
        ("scheduling: {timeout: " + "9" * 5000 + "s}", "whole seconds with an s"),
    ],
    ids=lambda value: value[:36],
)
def test_a_value_in_a_cluster_file_is_refused(tmp_path, text, words):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_cluster(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cron: '*/99999999999999 * * * *'", "cron: '.*' in .* has a step above 59"),
        ("cron: '0 */24 * * *'", "cron: '.*' in .* has a step above 23"),
        ("cron: '0 3 * * *'\nmax_runs: 1e23", r"max_runs is 1e\+23; .*from 1 to 1000000000"),
        ("cron: '0 3 * * *'\nmax_runs: 1" + "0" * 23, "max_runs is 10{23}; .*from 1 to 1000000000"),
        ("cron: '0 3 * * *'\nmax_runs: 010", "max_runs is '010'; "),
        ("cron: '0 3 * * *'\nconcurrency: 1000", "concurrency is 1000; .*from 1 to 100"),
        ("cron: '0 3 * * *'\nqueue: on", "queue is 'on'; .*true or false"),
        ("cron: '0 3 * * *'\nstart: 12:30", "start: '12:30' is not a time"),
        ("cron: '0 3 * * *'\ncron: '0 4 * * *'", "line 3: cron is given twice"),
    ],
    ids=lambda value: value[:48],
)
def test_a_value_in_a_schedule_file_is_refused(tmp_path, capsys, text, words):
    path = tmp_path / "nightly.yaml"
    path.write_text(f"workload: mnist\n{text}")
    with pytest.raises(ConfigError, match=words):
        read_schedule(path)
    arguments = ["schedule", "apply", str(tmp_path), "--dry-run", "--state-dir", str(tmp_path)]
    assert main(arguments) == 2
    assert re.search(words, capsys.readouterr().err)


def test_files_mean_what_set_means(tmp_path):
    written = {
        "train.epochs": "010",
        "train.learning_rate": "1e-2",
        "labels.team": "007",
        "labels.at": "on",
        "labels.time": "12-30",
        "labels.nothing": "null",
        "labels.v": "1_10",
        "thresholds.accuracy": "0.50",
        "prepare.run_date": "2026-11-01",
        "release.replay": "1e2",
    }
    expected = with_settings(mnist(), [f"{key}={value}" for key, value in written.items()])
    groups: dict[str, list[str]] = {}
    for key, value in written.items():
        group, _, name = key.partition(".")
        groups.setdefault(group, []).append(f"  {name}: {value}")
    run_file = "\n".join("\n".join([f"{group}:", *lines]) for group, lines in groups.items())
    (tmp_path / "run.yaml").write_text(run_file)
    parameters = "\n".join(f"  {key}: {value}" for key, value in written.items())
    path = tmp_path / "nightly.yaml"
    path.write_text(f"workload: mnist\ncron: '0 3 * * *'\nparameters:\n{parameters}")

    assert checked(*try_run_file(mnist(), tmp_path / "run.yaml")) == expected
    assert with_settings(mnist(), list(read_schedule(path).settings)) == expected
    assert (expected.train.epochs, expected.labels["team"]) == (10, "007")


@pytest.mark.parametrize("kind", ["fifo", "device", "large"])
def test_a_file_that_is_none_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "cluster.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_text("#" * 2_000_000)
    with pytest.raises(YamlError, match=r"no regular file|at most 1,000,000"):
        read_yaml_file(path)


def test_a_run_file_that_is_none_is_refused_at_once(tmp_path, capsys):
    (tmp_path / "workload.py").write_text("from trainer.workloads.mnist import workload")
    os.mkfifo(tmp_path / "run.yaml")
    assert main(["submit", str(tmp_path), "--dry-run", "--state-dir", str(tmp_path / "s")]) == 2
    assert "run.yaml: it is no regular file" in capsys.readouterr().err


HOSTILE = [
    "1e23",
    "-1",
    ".nan",
    ".inf",
    "",
    '"a\\nb"',
    "../x",
    "[]",
    "{}",
    "true",
    "1" + "0" * 400,
    "1" + "0" * 5000,
    "null",
    "\udcff",
    "a\x00b",
    "[[]]",
    "{a: .nan}",
    "{a: {}}",
    "- x",
    "'",
]
VALUES = [1e23, -1, math.nan, math.inf, "", "a\nb", "../x", [], {}, True, 10**400, None]
VALUES += [[[]], {"a": 0}]


@pytest.mark.parametrize("key", setting_keys(mnist()))
def test_a_hostile_value_is_refused_or_survives(key):
    """No value may give another exception than the one that commands report, in text or JSON.

    Each setting gets a third of the values, and each value is given to a third of the settings.
    """
    key = key.replace("METRIC", "accuracy").replace("NAME", "name")
    group, _, name = key.rpartition(".")
    some = slice(len(key) % 3, None, 3)
    for text in HOSTILE[some]:
        with contextlib.suppress(ConfigError):
            survives(with_settings(mnist(), [f"{key}={text}"]))
    for value in VALUES[some]:
        values = mnist().parameters()
        if group in values:
            values[group] = json.dumps({**json.loads(values[group]), name: value})
        else:
            values[group or name] = value
        with contextlib.suppress(ConfigError, DataError):
            survives(RunConfig.from_parameters(values))


def survives(config):
    sent = json.dumps(config.parameters(), allow_nan=False).encode()
    assert RunConfig.from_parameters(json.loads(sent)).parameters() == config.parameters()


@pytest.mark.parametrize("options", [PredictOptions, WatchOptions])
def test_a_hostile_value_of_other_options_is_refused_or_kept(options):
    for name in options.model_fields:
        for value in VALUES:
            with contextlib.suppress(ConfigError):
                options(**{name: value})


def test_every_number_has_a_least_and_a_greatest_value():
    declared = {**declared_settings(), **numbers_of(PredictOptions), **numbers_of(WatchOptions)}
    for key, schema in declared.items():
        if schema.get("type") in ("integer", "number"):
            assert {"minimum", "exclusiveMinimum"} & schema.keys(), key
            assert {"maximum", "exclusiveMaximum"} & schema.keys(), key


def numbers_of(options):
    return {name: schema_at(options, [name]) for name in options.model_fields}
