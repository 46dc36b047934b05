import pytest

from vertex_local.rules.conditions import ConditionError, evaluate

pytestmark = pytest.mark.fast

VALUES = {"verdict": "passed", "n": 3, "x": 1.5, "flag": True, "quoted": 'it\'s "so"', "none": None}


def read(name: str) -> str:
    return f"inputs.parameter_values['{name}']"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (f"{read('verdict')} == 'passed'", True),
        (f"{read('verdict')} == 'failed'", False),
        (f"!({read('verdict')} == 'failed') && int({read('n')}) > 2", True),
        (f"!({read('verdict')} == 'passed') && !(int({read('n')}) > 2)", False),
        (f"{read('verdict')} == 'failed' || {read('x')} >= 1.5", True),
        (f"{read('flag')} == true", True),
        (f"{read('n')} != -3", True),
        (f"{read('verdict')} != 'a && !(b)'", True),
        (f"{read('quoted')} == 'passed'", False),
        (f"{read('none')} == null", True),
    ],
)
def test_conditions_that_the_compiler_writes(condition: str, expected: bool) -> None:
    assert evaluate(condition, VALUES) is expected


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (f"{read('absent')} == 'passed'", "'absent', which has no value"),
        (f"{read('verdict')} == 3", "'passed' (string) with 3 (number)"),
        (f"{read('verdict')} == 'it's'", "syntax"),
        (f"int({read('verdict')}) == 3", "invalid literal"),
        (f"{read('verdict')}", "neither true nor false"),
        ("__import__('os').system('true') == 0", "not supported"),
        (f"{read('verdict')} in 'x'", "`In` is not supported"),
        ("", "syntax"),
    ],
)
def test_a_condition_that_cannot_be_evaluated_is_an_error(condition: str, reason: str) -> None:
    with pytest.raises(ConditionError) as error:
        evaluate(condition, VALUES)
    assert reason in str(error.value)
    assert condition in str(error.value)


def test_a_value_is_never_code() -> None:
    assert evaluate(f"{read('v')} == 'a'", {"v": "b' or 'a' == 'a"}) is False
