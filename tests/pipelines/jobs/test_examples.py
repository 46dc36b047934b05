"""Settings of a job's examples as flags of the command that prepares them."""

import argparse

import pytest

from components.prepare_examples.settings.options import PrepareOptions
from pipelines.jobs.examples import prepare_flags
from trainer.config.flags import add_flags

pytestmark = pytest.mark.fast

RATIOS = {"train": 0.5, "eval": 0.25, "test": 0.25}


@pytest.mark.parametrize(
    "settings",
    [
        {"files": ["a b.csv", "c,d.csv"], "max_examples": 7},
        {"split": {"by": "day", "test": ["x, y", "z"]}, "ratios": RATIOS},
        {"split_key": ("id", "town"), "max_quarantine": 0.5, "block_on": "none"},
    ],
)
def test_flags_of_settings_are_read_as_these_settings(settings):
    parser = argparse.ArgumentParser()
    add_flags(parser, PrepareOptions)
    options = PrepareOptions(**settings)
    read = vars(parser.parse_args(prepare_flags(options)))
    assert {name: read[name] for name in settings} == settings
