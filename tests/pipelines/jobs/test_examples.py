"""Settings of a job's examples in the process that prepares them."""

import json

import pytest

from components.prepare_examples.settings.options import PrepareOptions
from pipelines.config.built_in import taxi
from pipelines.config.settings import with_settings
from pipelines.jobs.examples import examples_of
from pipelines.places.target import local_target

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "settings",
    [
        {"max_examples": "7"},
        {"prepare.split": '{"by": "day", "test": ["x, y", "z"]}', "prepare.block_on": "none"},
        {"prepare.split_key": "[id, town]", "prepare.max_quarantine": "0.5"},
    ],
)
def test_settings_are_those_of_the_run(settings, tmp_path):
    config = with_settings(taxi(), [f"{key}={text}" for key, text in settings.items()])
    request = examples_of(config, local_target(tmp_path), examples_dir=None).request
    values = json.loads(json.dumps(request))["options"]
    assert PrepareOptions(**values) == config.prepare_options()
