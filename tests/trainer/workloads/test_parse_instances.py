"""Instances of a batch are read column by column, with the same result as one by one."""

import base64
import math

import numpy as np
import pytest

from trainer.errors import InstanceError
from trainer.runtime.lazy import tf
from trainer.workloads import Category, Number, Regression, Table, Text, Timestamp, load_workload
from trainer.workloads.base import Workload
from trainer.workloads.encoding.images import parse_image

TABLE = Table(
    [
        Number("age"),
        Number("vector", length=2),
        Category("plan", min_count=1),
        Category("rooms", low=-2, high=5),
        Timestamp("at", parts=("month",)),
    ],
    label=Regression("y"),
    name="t",
)
ROWS = [
    {"age": 1, "vector": [1, 2.5], "plan": "é", "rooms": -2, "at": 0},
    {"age": 2.5, "plan": None, "key": 3},
    {},
]


def test_a_batch_is_as_each_alone():
    expected = Workload.parse_instances(TABLE, ROWS)
    found = TABLE.parse_instances(ROWS)
    assert found.keys() == expected.keys()
    for name, column in found.items():
        assert column.dtype == expected[name].dtype
        np.testing.assert_array_equal(column, expected[name])


def test_a_plain_batch_is_not_read_one_by_one(monkeypatch):
    for kind in (Number, Category):
        monkeypatch.setattr(kind, "parse_one", None)
    table = Table([Number("age"), Category("plan"), Category("rooms", low=0, high=5)],
                  label=Regression("y"), name="t")  # fmt: skip
    assert table.parse_instances(ROWS[1:2])["age"].tolist() == [2.5]


@pytest.mark.parametrize("number", [4.7, 0.1, 1e-7, 123456.7, -3.0, 1.5e30])
def test_numbers_of_an_instance_are_written_as_in_its_row(number):
    features = TABLE.parse_instance({"age": number})
    instance = TABLE.format_instance(features)
    assert instance["age"] == number
    assert TABLE.parse_instance(instance)["age"] == features["age"]


def example(**floats):
    """Return an Example in base64."""
    record = tf.train.Example()
    for name, number in floats.items():
        record.features.feature[name].float_list.value.append(number)
    return base64.b64encode(record.SerializeToString()).decode()


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ({"age": "1o"}, "age is '1o'"),
        ({"age": True}, "age is True"),
        ({"age": float("nan")}, "age is nan"),
        ({"age": -1e39}, r"age is -1e\+39; it is too large"),
        ({"age": "1e400"}, "age is '1e400'; it is too large"),
        ({"age": "-1.797693e+308"}, r"age is '-1.797693e\+308'; it is too large"),
        ({"age": 10**400}, r"age is 1000+; it is too large"),
        ({"vector": [0, 10**400]}, r"vector is 1000+; it is too large"),
        ({"rooms": "5E213"}, "rooms is '5E213'; it must be a whole number from -2 to 5"),
        ({"rooms": 10**400}, "rooms is 1000+; it must be a whole number"),
        ({"at": 10**400}, "at is 1000+; it must be a time"),
        ({"vector": [0, 1e39]}, r"vector is 1e\+39; it is too large"),
        ({"b64": example(age=math.inf)}, "age is infinite in its tf.train.Example"),
        ({"plan": 0.5}, "plan is 0.5"),
        ({"rooms": 6}, "rooms is 6; it must be a whole number from -2 to 5"),
        ({"rooms": 0.5}, r"rooms is 0\.5"),
        ({"rooms": 2**64}, "rooms is 18446744073709551616"),
        ({"vector": [1]}, "vector has 1 numbers"),
        ({"height": 1}, "unknown field 'height'"),
        ([1], r'it must be an object, \{"age": …, "vector": …, "plan": …, …\}, not list'),
    ],
    ids=str,
)
def test_an_invalid_instance_of_a_batch_is_named(instance, message):
    with pytest.raises(InstanceError, match=f"^instance 1: {message}"):
        TABLE.parse_instances([ROWS[0], instance])


@pytest.mark.parametrize(
    ("feature", "value"),
    [(Number("age"), 2.5), (Number("point", length=2), [1.0, 2.0]), (Text("words"), "a b")],
    ids=lambda value: str(value)[:6],
)
def test_the_only_feature_s_bare_value_is_an_instance(feature, value):
    table = Table([feature], label=Regression("y"), name="t")
    bare, whole = (table.parse_instances([one]) for one in (value, {feature.name: value}))
    for name in whole:
        np.testing.assert_array_equal(bare[name], whole[name])


@pytest.mark.parametrize("rooms", [2.0, 5.0])
def test_whole_numbers_may_be_written_as_floats(rooms):
    assert TABLE.parse_instances([{"rooms": rooms}])["rooms"].tolist() == [int(rooms)]


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 3)])
def test_an_image_of_integers_is_as_one_of_floats(shape):
    image = np.random.default_rng(1).integers(0, 256, shape)
    for sent in (image, image.ravel()):
        found = parse_image(sent.tolist(), shape, bytes)
        np.testing.assert_array_equal(found, image)
        assert found.dtype == np.uint8
        general = parse_image(sent.astype(float).tolist(), shape, bytes)
        np.testing.assert_array_equal(found, general)


@pytest.mark.parametrize(
    "image",
    [
        [[1, 2], [3]],
        [1, 2, 3],
        [[1, 2], 3],
        [[True, False], [True, True]],
        [[256, 0], [0, 0]],
        [[-1, 0], [0, 0]],
        [[[1], [2]], [[3], [4]]],
        ["ab", "cd"],
        [],
    ],
    ids=str,
)
def test_another_image_is_invalid(image):
    with pytest.raises(ValueError, match="image has"):
        parse_image(image, (2, 2), bytes)


def test_instances_of_images_are_stacked():
    images = load_workload("mnist").parse_instances([[0] * 784, {"image": [[1] * 28] * 28}])
    assert images["image"].shape == (2, 28, 28)


WRITTEN = Table(
    [
        Number("price", written="1,234.5", signs=("$", "()"), missing=("NA", "-999")),
        Number("age"),
        Category("plan", missing=("?",)),
        Category("is_new"),
        Category("floor", low=0, high=9, missing=("none",)),
    ],
    label=Regression("y"),
    missing=("n/a",),
    name="t",
)


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "batch"])
@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("price", ["$1,234.5", "(2)", 7], [1234.5, -2, 7]),
        ("price", ["NA", " n/a ", -999, -999.0, None], [np.nan] * 5),
        ("age", [5, "n/a"], [5, np.nan]),
        ("plan", [" basic ", "basic", "?", " ?", "n/a", "", None], [b"basic"] * 2 + [b""] * 5),
        ("is_new", ["True", "true", "TRUE", True], [b"true"] * 4),
        ("is_new", [False, " False", "no"], [b"false", b"false", b"no"]),
        ("floor", [3, "none"], [3, -1]),
    ],
)
def test_values_are_read_as_in_files(name, values, expected, is_alone):
    instances = [{name: value} for value in values]
    if is_alone:
        found = np.array([WRITTEN.parse_instance(one)[name].item() for one in instances])
    else:
        found = WRITTEN.parse_instances(instances)[name]
    np.testing.assert_array_equal(found, np.array(expected, found.dtype))


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ({"price": "1,2"}, r"price is '1,2'; it must be a number, or a text such as '\$1,234\.5'"),
        ({"age": "5 kg"}, "age is '5 kg'; it must be a number"),
        ({"plan": True, "floor": "n"}, "floor is 'n'"),
    ],
)
def test_other_texts_are_refused(instance, message):
    with pytest.raises(InstanceError, match=message):
        WRITTEN.parse_instances([instance])
