import pytest

from components.release.options import ReleaseOptions
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


def test_defaults_move_all_traffic_at_once():
    options = ReleaseOptions.from_json("")

    assert (options.canary_percent, options.max_changed, options.keep_previous) == (0, None, False)
    assert options.log_requests is None


def test_settings_come_from_json():
    options = ReleaseOptions.from_json('{"canary_percent": 10, "max_changed": 0, "replay": 50}')

    assert (options.canary_percent, options.max_changed, options.replay) == (10, 0, 50)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"canary_percent": 100}', r"release\.canary_percent is 100"),
        ('{"canary_percent": 0.5}', r"release\.canary_percent is 0\.5"),
        ('{"max_slowdown": 1}', r"release\.max_slowdown is 1"),
        ('{"canary": 10}', r"release has no 'canary'; `trainyard settings` lists them"),
        ('{"log_table": "trips"}', r"release\.log_table is 'trips'; .* bq://PROJECT"),
        ("[]", "release is .* JSON object"),
    ],
)
def test_a_wrong_setting_is_named(text, problem):
    with pytest.raises(ConfigError, match=problem):
        ReleaseOptions.from_json(text)
