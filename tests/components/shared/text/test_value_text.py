import math

import pytest

from components.shared.text.value_text import number_text, shown_value, time_text

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (150000.0, "150,000"),
        (1.357e9, "1,357,000,000"),
        (1e-5, "0.00001"),
        (-2.5e-8, "-2.5·10⁻⁸"),
        (1e22, "1·10²²"),
        (12.25, "12.25"),
        (65891.9, "65,891.9"),
        (-1.5e-6, "-0.0000015"),
        (2016.0, "2016"),
        (0.1 + 0.2, "0.3"),
        (-0.0, "0"),
        (math.inf, "inf"),
    ],
)
def test_numbers_are_written_without_exponents_and_superfluous_digits(value, text):
    assert number_text(value) == text
    assert shown_value([value]) == text


def test_a_number_has_as_many_digits_as_asked_for():
    assert number_text(9999.6, digits=3) == "10,000"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1357000200, "2013-01-01 00:30"),
        (1356998400.0, "2013-01-01"),
        (10**12, "1,000,000,000,000 s"),
        (-(2.0**62), "-4.61169·10¹⁸ s"),
    ],
)
def test_seconds_are_written_as_a_date(seconds, text):
    assert time_text(seconds) == text
