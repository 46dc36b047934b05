"""Configuration of runs, `--set` and cluster files."""

import json
import re

import pytest

from components.plan_training.plan import trainer_args
from components.plan_training.shape import ClusterSpec
from pipelines.config.built_in import mnist
from pipelines.config.cluster_files import read_cluster, warn_of_local_limits, warn_of_restarts
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import with_settings
from pipelines.projects.runs import find_run
from trainer.config.train_config import TrainConfig, parse_flags
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


def test_an_unknown_workload_names_the_known_ones():
    with pytest.raises(
        ConfigError,
        match=r"unknown workload 'mnits'; did you mean 'mnist'\? allowed are mnist, cifar10, taxi",
    ):
        find_run("mnits")


def test_settings_reach_every_group():
    config = with_settings(
        mnist(),
        [
            "train.epochs=5",
            "thresholds.accuracy=0.9",
            "cluster.workers=3",
            "model_name=digits",
            "prepare.num_shards={train: 8}",
            "release.canary=10,50",
            "release.max_changed=2e-2",
            "prepare.files=/d/{run_date:%Y-%m}.csv",
            "prepare.run_date=2026-11-01",
            "trigger.new_files=true",
            "trigger.cool_down=3d",
        ],
    )

    assert config.train.epochs == 5
    assert config.thresholds == {"accuracy": 0.9}
    assert config.cluster.workers == 3
    assert config.model_name == "digits"
    assert json.loads(config.parameters()["release"]) == {"canary": [10, 50], "max_changed": 0.02}
    assert RunConfig.from_parameters(config.parameters()) == config
    assert json.loads(config.parameters()["prepare"]) == {
        "num_shards": {"train": 8},
        "files": ["/d/{run_date:%Y-%m}.csv"],
        "run_date": "2026-11-01",
    }
    assert json.loads(config.parameters()["trigger"]) == {"new_files": True, "cool_down": "3d"}
    assert mnist().train.epochs == 2, "settings change a copy"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("threshold=1", "mean 'thresholds'. It is a group of"),
        ("name=1", "unknown key 'name'; `trainyard settings --all`"),
        ("train.batch_size=no", ": train.batch_size is 'no'"),
        ("workload=taxi", "unknown key 'workload'"),
        ("train.epochs", "has no value"),
        ("prepare.compression=zip", "allowed are gzip, none"),
        ("prepare.ratios=0.5", "ratios is 0.5.*numbers by name"),
        ("prepare.files={a: 1}", "must be a list of texts"),
        ("prepare.trust_files=true", "unknown key"),
        ("release.canary=100", r"release\.canary\[0\] is 100"),
        ("release.canry=10", "did you mean 'release.canary'"),
        ("trigger.new_file=true", "did you mean 'trigger.new_files'"),
        ("trigger.drift=much", "trigger.drift is 'much'"),
        ("cluster.workers=two", "workers is 'two'"),
        ("cluster.strategy=single", "workers is 2.*has no worker"),
        ("thresholds.accuracy=high", "accuracy is 'high'.*a number"),
        ("thresholds.=0.9", "unknown key 'thresholds.'.*loss"),
        ("thresholds.recall=0.9", "unknown key.*recall.*loss"),
        ("thresholds.loss.over=1", "unknown key.*loss.over"),
        ("thresholds.loss={over: 1}", "loss has no 'over'"),
        ("model_name=[a", "model_name"),
        ('model_name=a" OR name="b', "model_name is .*without quotation"),
        ("train.optimizer=amda", "did you mean 'adam'"),
        ("train.momentum=0.9", "adam has none"),
        ("model.crosses=fare:company", "has no such setting"),
    ],
)
def test_a_wrong_setting_is_named(setting, message):
    with pytest.raises(ConfigError, match=message):
        with_settings(mnist(), [setting])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train.learning_rate=1e-3", 0.001),
        ("train.learning_rate=2E-2", 0.02),
        ("train.learning_rate=.5", 0.5),
        ("train.learning_rate=1", 1.0),
        ("train.batch_size=1e3", 1000),
        ("train.batch_size=0100", 100),
        ("thresholds.accuracy=9e-1", 0.9),
        ("thresholds.loss=0.05", 0.05),
        ("thresholds.loss.at_most=5e-2", None),
        ("prepare.ratios={train: 9e-1, eval: 5e-2, test: 5e-2}", None),
        ("max_examples=2e3", 2000),
        ("model_name=2026", "2026"),
        ("model_name=1e3", "1e3"),
        ("model_name=yes", "yes"),
        ("model_name='2026'", "2026"),
        ("labels.team=7", "7"),
        ("keep_endpoint=true", True),
        ("train.epochs=null", None),
    ],
)
def test_a_value_is_read_by_the_type_of_its_setting(setting, value):
    config = with_settings(mnist(), [setting])

    group, _, name = setting.partition("=")[0].rpartition(".")
    if group == "thresholds.loss":
        assert config.thresholds == {"accuracy": 0.985, "loss": {"at_most": 0.05}}
        return
    if group == "prepare":
        assert config.prepare.ratios == {"train": 0.9, "eval": 0.05, "test": 0.05}
        return
    owner = getattr(config, group) if group else config
    found = owner[name] if isinstance(owner, dict) else getattr(owner, name)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("train.learningrate=5", "train.learning_rate"),
        ("cluster.worker=2", "cluster.workers"),
        ("keep-endpoint=true", "keep_endpoint"),
        ("threshold.accuracy=1", "thresholds.accuracy"),
        ("thresholds.acuracy=1", "thresholds.accuracy"),
        ("thresholds.Loss=1", "thresholds.loss"),
        ("prepare.num_shard=1", "prepare.num_shards"),
    ],
)
def test_a_mistyped_key_is_recognized(setting, meant):
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        with_settings(mnist(), [setting])


@pytest.mark.parametrize(
    ("settings", "args"),
    [
        (["model.hidden_units=128,64"], ["--model.hidden_units=128,64"]),
        (["model.batch_norm=true", "train.momentum=null"], ["--model.batch_norm=true"]),
        (
            ["model.crosses=payment_type:fare,fare:company", "train.linear_optimizer=ftrl"],
            ["--model.crosses=payment_type:fare,fare:company", "--linear-optimizer=ftrl"],
        ),
        (["train.schedule_steps=900"], ["--schedule-steps=900"]),
    ],
)
def test_settings_of_the_model_become_flags_of_the_trainer(settings, args):
    config = with_settings(find_run("taxi"), settings)
    again = RunConfig.from_parameters(config.parameters())
    flags = trainer_args({"workload": "taxi", "examples_dir": "-", **again.train.given()})
    assert set(args) <= set(flags)
    assert parse_flags(flags) == TrainConfig(
        **{"workload": "taxi", "examples_dir": "-", **config.train.given()}
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_settings_that_need_each_other_come_in_any_order(reverse):
    settings = ["train.optimizer=sgd", "train.momentum=0.5", "train.epochs=null", "train.steps=5"]
    config = with_settings(mnist(), settings[::-1] if reverse else settings)
    assert (config.train.momentum, config.train.steps) == (0.5, 5)
    with pytest.raises(ConfigError, match=r"^--set train\.momentum=2: "):
        with_settings(mnist(), ["train.momentum=2", "train.optimizer=sgd"])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_cluster_is_checked_once_all_of_it_is_set(reverse):
    settings = ["cluster.strategy=single", "cluster.workers=0", "cluster.parameter_servers=0"]
    config = with_settings(mnist(), settings[::-1] if reverse else settings)
    assert (config.cluster.strategy, config.cluster.workers) == ("single", 0)
    with pytest.raises(ConfigError, match=r"^--set cluster\.machine=big: .*big"):
        with_settings(mnist(), [*settings, "cluster.machine=big"])


@pytest.mark.parametrize(("name", "other"), [("steps", "epochs"), ("epochs", "steps")])
def test_steps_and_epochs_replace_each_other(name, other):
    before = with_settings(mnist(), [f"train.{other}=2"])
    assert with_settings(before, [f"train.{name}=20"]).train.given() == {
        **{
            key: value
            for key, value in mnist().train.given().items()
            if key not in ("steps", "epochs")
        },
        name: 20,
    }
    with pytest.raises(ConfigError, match="cannot both be given"):
        with_settings(mnist(), [f"train.{name}=20", f"train.{other}=2"])


def test_structures_travel_as_json_text():
    parameters = mnist().parameters()

    assert json.loads(parameters["train"]) == mnist().train.given()
    assert json.loads(parameters["cluster"])["workers"] == 2


def test_shipped_cluster_files_are_valid(pytestconfig):
    files = sorted((pytestconfig.rootpath / "configs" / "clusters").glob("*.yaml"))

    assert files
    for path in files:
        read_cluster(path)


def test_a_missing_cluster_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the cluster file .*nowhere\.yaml"):
        read_cluster(tmp_path / "nowhere.yaml")


def test_the_warnings_of_a_cluster_file_are_logged(tmp_path, caplog):
    path = tmp_path / "cluster.yaml"
    path.write_text("trainingInput: {scaleTier: BASIC_GPU}\n")

    cluster = read_cluster(path)
    warn_of_local_limits(cluster)

    assert "standard_gpu is retired and now n1-standard-8 with 1 NVIDIA_TESLA_T4" in caplog.text
    assert re.search("1 NVIDIA_TESLA_T4 .*on this machine", caplog.text)


def test_restarts_that_a_pipeline_cannot_forbid_are_logged(caplog):
    warn_of_restarts(ClusterSpec())
    assert caplog.text == ""
    warn_of_restarts(ClusterSpec(restarts="never"))
    assert re.search("restarts.*never.*jobs submit", caplog.text)


def test_a_setting_may_be_an_accelerator():
    setting = "cluster.accelerator={type: NVIDIA_TESLA_T4, count: 2}"

    assert str(with_settings(mnist(), [setting]).cluster.accelerator) == "2 NVIDIA_TESLA_T4"
    with pytest.raises(ConfigError, match=r"accelerator\.count is 3"):
        with_settings(mnist(), [setting.replace("2", "3")])


def test_an_unknown_key_names_the_nearest_one_and_not_all():
    with pytest.raises(ConfigError) as error:
        with_settings(mnist(), ["train.epoch=5"])
    assert str(error.value) == (
        "--set train.epoch=5: unknown key 'train.epoch'; did you mean 'train.epochs'?"
        " `trainyard settings --all` lists them"
    )
