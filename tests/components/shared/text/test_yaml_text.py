"""YAML of users: aliases are refused wherever YAML is read, with file and line."""

import json

import pytest

from components.plan_training.prices import read_prices
from components.shared.text.yaml_text import YamlError, load_documents, load_yaml
from pipelines.config.built_in import mnist
from pipelines.config.cluster_files import read_cluster
from pipelines.config.settings import with_settings
from pipelines.package.spec import read_package_file
from pipelines.places.target import local_target
from pipelines.runs.submit import plan_run
from pipelines.schedules.file import read_schedule
from tests.support.data.packages import package
from trainer.errors import ClusterError, ConfigError

pytestmark = pytest.mark.fast

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "read", [read_cluster, read_schedule, read_package_file], ids=lambda read: read.__name__
)
def test_a_file_with_aliases_is_refused_with_its_line(tmp_path, read):
    path = tmp_path / "nightly.yaml"
    path.write_text(LAUGHS)

    with pytest.raises(ConfigError, match=r"nightly\.yaml.*line 2.*\*a"):
        read(path)


@pytest.mark.parametrize("value", ["[&a [1], *a]", "{a: &a {b: 1}, c: {<<: *a}}", "&a [*a]"])
def test_a_setting_with_an_alias_is_refused(value):
    with pytest.raises(ConfigError, match=r"train.epochs.*line 1.*\*a"):
        with_settings(mnist(), [f"train.epochs={value}"])


def test_a_parameter_of_any_pipeline_with_an_alias_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"--set names=.*line 1.*\*a"):
        plan_run(
            package(),
            run="tiny-1",
            target=local_target(tmp_path),
            config=None,
            settings=["names=[&a [1], *a]"],
        )


def test_a_price_table_with_aliases_is_refused(tmp_path):
    (tmp_path / "prices.yaml").write_text(LAUGHS)
    with pytest.raises(ClusterError, match=r"line 2.*\*a"):
        read_prices(tmp_path / "prices.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", "line 3"),
        (f"a: {'9' * 5000}", "not YAML"),
        ("[" * 50_000, "nested too deeply"),
        ("a: 1\n---\nb: 2", "several documents"),
        ("{[a]: [}", "line 1"),
        ("? {a: 1}\n: 2", "line 1"),
    ],
)
def test_invalid_yaml_is_refused_with_its_line(text, message):
    with pytest.raises(YamlError, match=message):
        load_yaml(text)


def test_valid_yaml_is_parsed():
    text = "a: [1, 2.5, x, true, null]\nb: &unused {c: '*not an alias'}"
    assert load_yaml(text) == {"a": [1, 2.5, "x", True, None], "b": {"c": "*not an alias"}}
    assert load_yaml("") is None
    for written in ("010", "007", "1:30", "on", "yes", "0x1F", "1_000", "2026-99-99", "2026-01-01"):
        assert load_yaml(f"a: {written}\n1: 2") == {"a": written, "1": 2}
    assert load_yaml("[1e3, -0, +5, .5, 1.10]") == [1000.0, 0, 5, 0.5, 1.1]
    assert load_documents("a: 1\n---\nb: 2") == [{"a": 1}, {"b": 2}]


def test_json_has_signs_beyond_sixteen_bits():
    assert load_yaml(json.dumps({"by": "Zeit \U0001f600"})) == {"by": "Zeit \U0001f600"}
