import pytest

from components.release.options import ReleaseOptions
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


def test_defaults_move_all_traffic_at_once():
    options = ReleaseOptions.from_json("")

    assert (options.canary, options.max_changed, options.keep_previous) == ((), None, False)
    assert options.log_requests is None


def test_settings_come_from_json():
    options = ReleaseOptions.from_json('{"canary": [10, 25, 50], "max_changed": 0, "replay": 50}')

    assert (options.max_changed, options.replay) == (0, 50)
    assert options.canary == (10, 25, 50)
    assert ReleaseOptions(canary="10,25,50") == ReleaseOptions(canary=["10", "25", "50"])
    assert ReleaseOptions(canary=5).canary == (5,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"canary": 100}', r"release\.canary\[0\] is 100; .* from 1 to 99"),
        ('{"canary": [0.5]}', r"release\.canary\[0\] is 0\.5"),
        ('{"canary": [50, 25]}', r"release\.canary is 50,25; .* above the one before"),
        ('{"canary": [5, 5]}', r"release\.canary is 5,5"),
        ('{"canary": true}', r"release\.canary\[0\] is True"),
        ('{"canary": {"1": 2}}', r"release\.canary is"),
        ('{"max_slowdown": 1}', r"release\.max_slowdown is 1"),
        (
            '{"canary_percent": 10}',
            r"release has no 'canary_percent'; did you mean",
        ),
        ('{"approval": "needed"}', r"release\.approval is 'needed'; .*none, required"),
        ('{"log_table": "trips"}', r"release\.log_table is 'trips'; .* bq://PROJECT"),
        ("[]", "release is .* JSON object"),
    ],
)
def test_a_wrong_setting_is_named(text, problem):
    with pytest.raises(ConfigError, match=problem):
        ReleaseOptions.from_json(text)
