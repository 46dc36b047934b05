import numpy as np
import pytest

from components.evaluate.gate.options import GateOptions
from components.evaluate.gate.slice_rules import cut, parse_rule, with_declared_names
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

COLUMNS = {
    "firm": np.array(["a", "b", "", "a"], object),
    "hour": np.array([1, -1, 23, 1]),
    "fare": np.array([3.0, np.nan, 20.0, 20.5], np.float32),
    "年龄": np.array([18, 40, 50, 60]),
}
MISSING = {"hour": -1}


@pytest.mark.parametrize(
    ("rule", "slices"),
    [
        ("firm", {"a": [0, 3], "b": [1]}),
        ("hour", {"1": [0, 3], "23": [2]}),
        ("missing(firm)", {"": [2]}),
        ("missing(hour)", {"": [1]}),
        ("missing( fare )", {"": [1]}),
        ("fare > 20", {"": [3]}),
        ("fare<=20", {"": [0, 2]}),
        ("firm = a", {"": [0, 3]}),
        ("firm != a", {"": [1]}),
        ("hour = 23", {"": [2]}),
        ("buckets(fare; 5; 20.25)", {"below 5": [0], "5 to 20.25": [2], "from 20.25": [3]}),
        ("firm = a & fare > 10", {"": [3]}),
        ("firm & fare > 2", {"a": [0, 3]}),
        ("fare > 99", {}),
        ("年龄 > 30 & fare > 2", {"": [2, 3]}),
    ],
)
def test_a_rule_cuts_a_split(rule, slices):
    found = cut(parse_rule(rule), COLUMNS, MISSING)
    assert {name: np.flatnonzero(mask).tolist() for name, mask in found.items()} == slices


def test_a_number_with_many_values_is_cut_into_quarters():
    numbers = np.r_[np.arange(100.0), np.nan]
    found = cut(parse_rule("fare"), {"fare": numbers}, {})
    assert [mask.sum() for mask in found.values()] == [25, 25, 25, 25]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fare >",
        "> 3",
        "missing()",
        "buckets(fare; 9; 5)",
        "buckets(fare)",
        "fare < a",
        "missing(fare",
        "buckets(fare; a)",
        "fare > 3 &",
        '"a b',
    ],
)
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(ConfigError, match=r"gate\.slices has .* not a slice; write"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("rule", "kinds", "names"),
    [
        ("Ticket Price (€) > 20", [">"], ["price"]),
        ("missing(Ticket Price (€))", ["missing"], ["price"]),
        ("buckets(Ticket Price (€); 5)", ["buckets"], ["price"]),
        ("Sepal.Length & 2nd-class", ["values", "values"], ["sepal_length", "2nd-class"]),
        ("ticket  price (€)", ["values"], ["price"]),
        ('"R&D = x; y" != a & price', ["!=", "values"], ["research", "price"]),
    ],
)
def test_features_may_have_the_names_of_the_files(rule, kinds, names):
    known = ["price", "sepal_length", "2nd-class", "research"]
    aliases = {
        "Ticket Price (€)": "price",
        "Sepal.Length": "sepal_length",
        "R&D = x; y": "research",
    }
    [found] = with_declared_names([parse_rule(rule)], known, aliases, owner="w")
    assert [part.kind for part in found.parts] == kinds
    assert list(found.features) == names
    assert found.text == rule


def test_a_feature_that_does_not_exist_is_named_with_a_similar_name():
    with pytest.raises(ConfigError, match="no feature 'Ticket Prize'; did you mean 'Ticket Price'"):
        with_declared_names(
            [parse_rule("Ticket Prize")], ["price"], {"Ticket Price": "price"}, owner="w"
        )


@pytest.mark.parametrize(("rule", "word"), [("fare = cheap", "number"), ("firm > 3", "text")])
def test_numbers_and_texts_are_not_compared(rule, word):
    with pytest.raises(ConfigError, match=word):
        cut(parse_rule(rule), COLUMNS, MISSING)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_gian": 1}, "did you mean 'min_gain'"),
        ({"min_gain": "much"}, "gate.min_gain is 'much'.*a number"),
        ({"baseline": "forest"}, "gate.baseline.*linear, trees, constant, none"),
        ({"confidence": 1.0}, "gate.confidence"),
        ({"slices": "fare >"}, "not a slice"),
        ({"max_latency_ms": 0}, "gate.max_latency_ms"),
    ],
)
def test_a_wrong_setting_of_the_gate_is_named(values, message):
    with pytest.raises(ConfigError, match=message):
        GateOptions(**values)


def test_settings_of_the_gate_are_json():
    options = GateOptions.from_json('{"slices": "fare > 20,firm", "min_gain": 0.01}')
    assert options.slices == ("fare > 20", "firm")
    assert options.min_gain == 0.01
    with pytest.raises(ConfigError, match=r"gate is .*JSON object"):
        GateOptions.from_json("{")
