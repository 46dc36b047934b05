"""Names of columns in files and requests, matched with declared ones."""

import pytest

from trainer.workloads.declarations.names import declared_names

KNOWN = ["Age", "age", "trip_seconds", "x_y", "x_y_2"]
ALIASES = {"x/y": "x_y", "x y": "x_y_2", "Dauer": "trip_seconds"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Age", "age"], ["Age", "age"]),
        (["AGE"], ["AGE"]),  # either could be meant
        (["Trip Seconds", " dauer "], ["trip_seconds", "trip_seconds"]),
        (["trip_seconds", "Trip Seconds"], ["trip_seconds", "Trip Seconds"]),
        (["x/y", "x y"], ["x_y", "x_y_2"]),
        (["X Y", "X/Y"], ["x_y", "x_y"]),
        ([" other "], ["other"]),
    ],
)
def test_a_name_is_matched_exactly_or_in_the_only_normal_form(names, expected):
    assert declared_names(names, KNOWN, ALIASES) == expected
