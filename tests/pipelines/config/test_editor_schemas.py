"""Schemas for editors: as the settings are, beside the files that name them."""

import re

import pytest
import yaml

from pipelines.config.editor_schemas import CLUSTER, RUN, SCHEDULE, editor_schema, schema_text
from pipelines.config.settings import declared_settings

pytestmark = pytest.mark.fast

NAMED = re.compile(r"^# yaml-language-server: \$schema=(\S+)\n")


@pytest.mark.parametrize("kind", [RUN, CLUSTER, SCHEDULE])
def test_the_schemas_in_configs_are_those_of_the_settings(pytestconfig, kind):
    path = pytestconfig.rootpath / "configs/schemas" / f"{kind}.json"
    how = "python -m tools.api_reference writes it"
    assert path.read_text(encoding="utf-8") == schema_text(kind), how


def test_every_shipped_file_names_its_schema_and_has_only_its_keys(pytestconfig):
    files = [*pytestconfig.rootpath.glob("configs/[cs]*s/*.yaml")]
    assert len(files) > 10
    for path in files:
        text = path.read_text()
        schema = path.parent / NAMED.match(text)[1]
        assert schema.is_file()
        whole = editor_schema(schema.stem)
        keys = {
            key
            for allowed in whole.get("anyOf", [whole])
            for key in (*allowed.get("properties", ()), *allowed.get("required", ()))
        }
        assert {*yaml.safe_load(text)} <= keys | {"scheduling"}, path


def test_the_schema_of_run_yaml_has_every_setting():
    schema = editor_schema(RUN)
    for key in declared_settings():
        group, _, name = key.rpartition(".")
        owner = schema
        if group:
            reference = schema["properties"][group].get("$ref") or "#/$defs/ClusterSpec"
            owner = schema["$defs"][reference.rpartition("/")[2]]
        assert owner["properties"][name]["description"], key
