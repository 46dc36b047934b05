"""Tables that users declare: encoding, facts, labels, requests and the default model."""

import json
from collections import Counter
from datetime import datetime, timedelta

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.values.times import parse_times, part_of
from tests.support.data.encoded_tables import FEATURES, NOON, ROWS, adapted, make_example
from trainer.errors import ConfigError
from trainer.workloads import (
    Binary,
    Category,
    Classes,
    Multilabel,
    Number,
    Regression,
    Table,
    TimePart,
    Timestamp,
    combine,
)
from trainer.workloads.base import MIN_ROWS
from trainer.workloads.encoding.columns import TableFacts
from trainer.workloads.encoding.lookups import split_tokens, tokenize
from trainer.workloads.encoding.moments import PART_LIMITS, time_part


def make_model(inputs, *, units: int = 4):
    parts = [tensor for tensor in inputs.values() if tensor.dtype == "float32"]
    hidden = keras.layers.Dense(units)(keras.layers.concatenate(parts))
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


@pytest.fixture(scope="module")
def encoded():
    """The inputs of a declared model, by name, and the table."""
    table, examples = adapted(Table(FEATURES, label=Regression("y"), model=make_model))
    inputs = table.preprocess(table.encode(table.parse(examples)[0]))
    return {name: values.numpy() for name, values in inputs.items()}, table


def _num_operations(num_columns):
    """Return the operations of the encoding of so many columns of each kind, but for inputs."""
    numbers = [Number(f"n{at}", is_clipped=at % 2 == 0) for at in range(num_columns)]
    buckets = [Number(f"b{at}", buckets=3) for at in range(num_columns)]
    texts = [Category(f"t{at}", missing=["?"]) for at in range(num_columns)]
    hashed = [Category(f"h{at}", hashed=9) for at in range(num_columns)]
    whole = [Category(f"w{at}", low=0, high=at + 1) for at in range(num_columns)]
    times = [Timestamp(f"m{at}") for at in range(num_columns)]
    features = [*numbers, *buckets, *texts, *hashed, *whole, *times]
    facts = TableFacts(
        vocabularies={text.name: ["a", text.name] for text in texts},
        boundaries={number.name: [1.0, 2.0] for number in buckets},
    )
    table = Table(features, label=Binary("y", positive="1"), learnt=facts)

    def encode(**columns):
        return table.encode(table.plain_features(columns))

    graph = tf.function(encode, autograph=False).get_concrete_function(**table.input_specs()).graph
    return sum(operation.type != "Placeholder" for operation in graph.get_operations())


def test_columns_of_one_kind_are_encoded_together():
    assert _num_operations(5) == _num_operations(2)


def test_few_examples_of_many_columns_are_predicted_at_once():
    few, many = (
        Table([Number(f"n{at}") for at in range(count)], label=Regression("y"))
        for count in (2, 1000)
    )
    assert many.num_rows_at_once == MIN_ROWS < few.num_rows_at_once


def test_numbers_are_scaled_and_missing_ones_marked(encoded):
    inputs, _ = encoded
    np.testing.assert_allclose(inputs["age"], [[-1], [1], [0]])
    np.testing.assert_allclose(inputs["age_is_missing"], [[0], [0], [1]])
    logs = np.log1p([5.0, 20.0])
    scaled = (logs - logs.mean()) / logs.std()
    np.testing.assert_allclose(inputs["price"], [[scaled[0]], [scaled[1]], [0]], rtol=1e-5)
    assert "price_is_missing" not in inputs
    assert inputs["price_bucket"].tolist() == [3, 4, 0]
    vector = (np.array([1, 2, 3]) - 2) / np.std([1, 2, 3])
    np.testing.assert_allclose(inputs["vector"], [vector, [0] * 3, [0] * 3], rtol=1e-5)


def test_categories_are_numbered_with_missing_and_unknown_values(encoded):
    inputs, table = encoded
    assert inputs["plan"].tolist() == [2, 3, 0]
    assert inputs["color"].tolist() == [3, 0, 1]
    hashed = int(tf.strings.to_hash_bucket_fast("8001", 50)) + 2
    assert inputs["zip"].tolist() == [hashed, 0, 0]
    assert inputs["rooms"].tolist() == [3, 0, 1]
    assert inputs["weekday"].tolist() == [6, 0, 0]
    assert inputs["tags"].tolist() == [[2, 3, 2], [3, 0, 0], [0, 0, 0]]
    assert table.learnt.vocabularies["tags"] == ["a", "b"]  # of the values that the model gets
    integers = {name for name, values in inputs.items() if values.dtype == np.int32}
    named = {"price_bucket", "plan", "color", "zip", "rooms", "tags", "note"}
    assert integers == named | {"at_month", "at_hour", "weekday"}


def test_texts_become_the_numbers_of_their_tokens(encoded):
    inputs, table = encoded
    vocabulary = table.learnt.vocabularies["note"]
    assert vocabulary == ["stop", "dont", "été"]
    assert inputs["note"].tolist() == [[3, 2, 4, 0], [2, 0, 0, 0], [0, 0, 0, 0]]


def test_moments_become_parts_and_cycles(encoded):
    inputs, _ = encoded
    assert inputs["at_month"].tolist() == [3, 2, 0]
    assert inputs["at_hour"].tolist() == [14, 2, 0]
    angles = 2 * np.pi * np.array([1 / 12, 12 / 24])
    expected = np.ravel([[np.sin(angle), np.cos(angle)] for angle in angles])
    np.testing.assert_allclose(inputs["at_cycles"], [expected, [0, 1, 0, 1], [0] * 4], atol=1e-6)
    np.testing.assert_allclose(inputs["at_year"], [[1], [-1], [0]], atol=1e-6)


def test_the_model_gets_an_input_for_each_feature_with_its_size(encoded):
    inputs, table = encoded
    given = table.model_inputs()
    assert {name: tuple(one.shape[1:]) for name, one in given.items()} == {
        name: values.shape[1:] for name, values in inputs.items()
    }
    sizes = {name: getattr(one, "num_categories", None) for name, one in given.items()}
    assert (sizes["plan"], sizes["rooms"], sizes["zip"], sizes["age"]) == (4, 10, 52, None)
    model = table.build_model()
    assert model({name: tf.constant(values) for name, values in inputs.items()}).shape == (3, 1)


def test_all_inputs_may_be_combined_to_one_vector(encoded):
    inputs, _ = encoded
    table = Table(
        FEATURES,
        label=Regression("y"),
        model=lambda given: keras.Model(given, combine(given, embedding_size=3)),
    ).with_facts(encoded[1].facts())
    given = {name: tf.constant(values) for name, values in inputs.items()}
    numbers = sum(values.shape[1] for values in inputs.values() if values.dtype == np.float32)
    integers = sum(values.dtype == np.int32 for values in inputs.values())
    assert table.build_model()(given).shape == (3, numbers + 3 * integers)


def test_facts_survive_json_and_suffice_for_the_encoding(encoded):
    inputs, table = encoded
    facts = json.loads(json.dumps(table.facts()))
    again = Table(FEATURES, label=Regression("y"), model=make_model).with_facts(facts)
    examples = tf.constant([make_example(row) for row in ROWS])
    found = again.preprocess(again.encode(again.parse(examples)[0]))
    for name, values in found.items():
        np.testing.assert_array_equal(values, inputs[name], err_msg=name)


def statistics_of(rows):
    """Return statistics.json's features as prepare would write them."""
    features = {}
    for name in set().union(*rows):
        values = [one for row in rows for one in np.ravel(row.get(name, [])).tolist() if one != ""]
        counts = [list(pair) for pair in Counter(values).most_common()]
        found = {"num_unique": len(counts), "is_exact": True, "top_values": counts}
        if isinstance(values[0], str):
            tokens = Counter(token for value in values for token in split_tokens(value))
            found |= {"type": "STRING", "tokens": list(map(list, tokens.items()))}
        else:
            kind = "INT" if isinstance(values[0], int) else "FLOAT"
            found |= {"type": kind, "mean": float(np.mean(values)), "std": float(np.std(values))}
            found["quantiles"] = np.quantile(values, np.arange(101) / 100).tolist()
        features[name] = found
    return features


def test_facts_come_from_statistics_and_equal_those_of_the_examples():
    rows = [{**row, "tags": row["tags"][:3], "y": float(at)} for at, row in enumerate(ROWS)]
    table = Table(FEATURES, label=Regression("y"))
    expected, _ = adapted(table, rows)
    found = table.adapt_to_statistics(statistics_of(rows))
    assert found.learnt.vocabularies == expected.learnt.vocabularies
    assert found.learnt.boundaries == expected.learnt.boundaries
    for name, moments in expected.learnt.moments.items():
        assert found.learnt.moments[name] == pytest.approx(moments), name
    assert found.learnt.moments["y"] == pytest.approx([1.0, np.std([0, 1, 2])])
    assert found.learnt.edges.keys() == {"age"}
    assert found.learnt.edges["age"] == pytest.approx(expected.learnt.edges["age"])


def table_of_numbers(values, **options):
    rows = [{"x": float(value), "flat": 7.0} for value in values]
    features = [Number("x", **options), Number("flat")]
    return adapted(Table(features, label=Binary("y")), rows)


@pytest.mark.parametrize(
    ("options", "scale"),
    [({}, lambda x: x), ({"is_logarithmic": True}, np.log1p)],
    ids=["plain", "logarithmic"],
)
def test_the_default_model_is_linear_between_percentiles_as_numbers_are_scaled(options, scale):
    table, _ = table_of_numbers([*range(100)] * 6 + [10_000], **options)
    mean, deviation = table.learnt.moments["x"]
    edges = np.array(table.learnt.edges["x"]) * deviation + mean
    np.testing.assert_allclose(edges, scale(np.array([*range(0, 100, 4), 10_000])), rtol=1e-3)
    assert table.learnt.edges["flat"] == []  # a constant has no pieces
    assert table_of_numbers(range(100), **options)[0].learnt.edges["x"] == []  # few rows


@pytest.mark.parametrize(
    ("label", "few"),
    [
        (Binary("y"), 10.0),
        (Classes("y", values=(1, 2, 3)), 2.0),
        (Regression("y"), 2.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_weights_for_two_classes_decay_more_if_rows_are_few(label, few):
    recipe = Table([Number("x")], label=label).recipe_of()
    assert (recipe.decay_for(1_000), recipe.decay_for(10_000)) == (few, 1.0)


@pytest.mark.parametrize("options", [{"buckets": 4}, {"length": 1}], ids=["buckets", "list"])
def test_numbers_in_buckets_and_lists_have_no_pieces(options):
    assert "x" not in table_of_numbers(range(9), **options)[0].learnt.edges


def test_the_edges_are_learnt_for_the_default_model_only():
    own = Table([Number("x")], label=Binary("y"), model=lambda inputs: inputs)
    assert adapted(own, [{"x": 1.0}, {"x": 2.0}])[0].learnt.edges == {}


def test_a_number_far_from_all_others_hardly_changes_the_prediction_of_the_default_model():
    table, _ = table_of_numbers([*range(100)] * 6)
    model = table.build_model()
    weights = [np.ones(weight.shape) / 100 for weight in model.get_weights()]
    model.set_weights(weights)

    def predict(x):
        features = {"x": tf.constant([x]), "flat": tf.constant([7.0])}
        return float(model(table.preprocess(table.encode(features)))[0, 0])

    assert predict(99.0) - predict(50.0) > 0.01
    assert predict(1e9) - predict(1e6) == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("name", ["plan", "note", "price", "y", "at"])
def test_statistics_without_a_feature_do_not_suffice(name):
    rows = [{**row, "y": 1.0} for row in ROWS]
    statistics = statistics_of(rows)
    del statistics[name]
    assert Table(FEATURES, label=Regression("y")).adapt_to_statistics(statistics) is None


def test_clipped_numbers_are_limited_to_what_the_train_split_has():
    values = [*range(99), 1e6]
    rows = [{"x": float(value)} for value in values]
    table, _ = adapted(Table([Number("x", is_clipped=True)], label=Regression("x2")), rows)
    assert table.learnt.limits["x"] == [1.0, 98.0]
    seen = np.clip(values, 1, 98)
    features = {"x": tf.constant([-5.0, 50.0, 1e9, np.nan])}
    found = table.encode(features)["amounts"].numpy()
    expected = [(at - seen.mean()) / seen.std() for at in (1, 50, 98)]
    np.testing.assert_allclose(found[:, 0], [*expected, 0], rtol=1e-5)
    assert found[:, 1].tolist() == [0, 0, 0, 1]


LABELS = [
    (Binary("y", positive="yes"), [{"y": 1}, {"y": 0}, {}], [1, 0, -1], ("not yes", "yes")),
    (Classes("y", values=("b", "a")), [{"y": "a"}, {"y": "?"}, {}], [1, -1, -1], ("b", "a")),
    (Classes("y", values=(3, 7)), [{"y": 7}, {"y": 3}, {"y": 4}], [1, 0, -1], ("3", "7")),
    (Classes("y"), [{"y": "b"}, {"y": "a"}, {"y": "b"}], [1, 0, 1], ("a", "b")),
    (
        Multilabel("y", values=("a", "b")),
        [{"y": ["b", "a"]}, {"y": ["b", "?"]}, {}],
        [[1, 1], [0, 1], [0, 0]],
        ("a", "b"),
    ),
    (Multilabel("y"), [{"y": ["c", "a"]}, {"y": ["c"]}, {}], [[1, 1], [0, 1], [0, 0]], ("a", "c")),
    (Regression("y"), [{"y": 1.5}, {"y": -2.0}, {}], [1.5, -2, np.nan], ()),
]


@pytest.mark.parametrize(("label", "rows", "expected", "names"), LABELS, ids=lambda one: "")
def test_labels_of_each_kind_are_read_from_examples(label, rows, expected, names):
    rows = [{"x": float(at), **row} for at, row in enumerate(rows)]
    table, examples = adapted(Table([Number("x")], label=label), rows)
    features, labels = table.parse(examples)
    np.testing.assert_array_equal(labels, expected)
    is_number = isinstance(label, Multilabel | Regression)
    assert labels.dtype == (tf.float32 if is_number else tf.int64)
    assert table.labels == names
    assert set(features) == {"x"}
    outputs = table.build_model().output_shape
    assert outputs == (None, len(names) or 1)


def test_classes_of_whole_numbers_are_learnt_from_statistics():
    top_values = {"num_unique": 3, "is_exact": True, "top_values": [[10, 5], [2, 4], [7, 1]]}
    numbers = {"mean": 0.0, "std": 1.0, "num_unique": 0, "top_values": []}
    table = Table([Number("x")], label=Classes("y"), class_weights={10: 3.0})
    found = table.adapt_to_statistics({"x": numbers, "y": top_values})
    assert found.labels == ("2", "7", "10")
    again = table.with_facts(json.loads(json.dumps(found.facts())))
    _, labels = again.parse(tf.constant([make_example({"y": y}) for y in (10, 2, 7)]))
    assert labels.numpy().tolist() == [2, 0, 1]
    assert again.example_weights({}, labels).numpy().tolist() == [3, 1, 1]


COUNTS = {"num_unique": 2, "is_exact": True}
NO_NUMBERS = {"mean": 0.0, "std": 1.0, "num_unique": 0, "top_values": []}


@pytest.mark.parametrize(
    ("label", "top_values"),
    [
        (Binary("y", positive="yes"), [[0, 30], [1, 10]]),
        (Classes("y"), [["b", 10], ["a", 30]]),
        (Classes("y"), [[7, 10], [2, 30]]),
        (Classes("y", values=(True, False)), [["true", 30], ["false", 10]]),
    ],
    ids=["binary", "learnt texts", "learnt numbers", "truth values"],
)
def test_balanced_classes_have_the_same_sum_of_weights(label, top_values):
    statistics = {"x": NO_NUMBERS, "y": {**COUNTS, "top_values": top_values}}
    table = Table([Number("x")], label=label, class_weights="balanced")
    found = table.with_statistics(statistics).adapt_to_statistics(statistics)
    again = table.with_facts(json.loads(json.dumps(found.facts())))
    weights = again.example_weights({}, tf.constant([0, 1, -1], tf.int64)).numpy()
    assert weights.tolist() == pytest.approx([40 / 60, 40 / 20, 40 / 60])
    assert weights[0] * 30 + weights[1] * 10 == pytest.approx(40)
    weighted = again.example_weights({"weights": tf.constant([3.0])}, tf.constant([1], tf.int64))
    assert weighted.numpy().tolist() == [6]


def test_balanced_classes_without_counts_and_unknown_ones_are_named():
    labels = tf.constant([0], tf.int64)
    table = Table([Number("x")], label=Binary("y"), class_weights="balanced")
    with pytest.raises(ConfigError, match=r"no statistics\.json with the counts of 'y'"):
        table.with_statistics({}).example_weights({}, labels)
    table = Table([Number("x")], label=Classes("y"), class_weights={"Dog": 2.0})
    with pytest.raises(ConfigError, match=r"'Dog' is not a class; .*allowed are 'cat', 'dog'"):
        table.with_facts({"classes": ["cat", "dog"]}).example_weights({}, labels)


def test_weights_come_from_a_column_and_the_classes():
    table = Table(
        [Number("x")],
        label=Binary("y", positive="yes"),
        weight="w",
        class_weights={"yes": 3.0, "no": 0.5},
    )
    rows = [{"y": 1, "w": 2.0}, {"y": 0, "w": 2.0}, {"y": 1}]
    features, labels = table.parse(tf.constant([make_example(row) for row in rows]))
    encoded = table.encode(features)
    assert table.example_weights(encoded, labels).numpy().tolist() == [6, 1, 3]
    assert set(table.preprocess(encoded)) == {"amounts"}
    del features["w"]
    assert "weights" not in table.encode(features)  # as in a request
    plain = Table([Number("x")], label=Binary("y"))
    assert plain.example_weights(plain.encode({"x": features["x"]}), labels) is None


def test_an_instance_has_the_values_that_examples_store(encoded):
    _, table = encoded
    examples = tf.constant([make_example(row) for row in ROWS])
    features, _ = table.parse(examples)
    for at in range(2):
        row = {name: column.numpy()[at] for name, column in features.items()}
        for form in table.wire_forms(row).values():
            found = table.parse_instance(json.loads(json.dumps(form, allow_nan=False)))
            for name, value in row.items():
                np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("sent", "time"),
    [
        (NOON, NOON),
        (float(NOON), NOON),
        ("2024-02-29T06:30:00-05:00", NOON + 3600),
        ("02/29/2024 12:30:00 PM", NOON),
    ],
)
def test_a_moment_may_be_sent_as_seconds_or_text(sent, time):
    table = Table([Timestamp("at", time_zone="Europe/Helsinki")], label=Regression("y"))
    assert int(table.parse_instance({"at": sent})["at"]) == time


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        (
            "",
            [
                *("2024-02-29 12:30:00", "2024-02-29T12:30:59Z", "2024-02-29", "2024-02-30", "x"),
                *("2024-07-01T12:30:59.75+05:30", "2024-07-01 12:30:59 -0330", "12", "-"),
                *("02/29/2024 12:30:00 AM", "2024-02-29 12:30:00 UTC", "2024-03-31 01:30:00Z"),
                "1969-12-31 23:59:59",
            ],
        ),
        ("", ["-5", "1709210000", "0", "999999999999", "-999999999999"]),
        ("", ["0001-01-01 00:00:00", "9999-12-31", "0001-01-02T00:00:00Z"]),
        ("%Y-%m-%d %z", ["9999-12-31 -0500", "0001-01-01 +0500", "0001-01-02 +0500"]),
        ("%d.%m.%Y", ["29.02.2024", "30.2.2024", "2024-02-29", "1.1.1900"]),
        ("%Y-%m-%d %H:%M %z", ["2024-07-01 12:30 +0200", "2024-07-01 12:30"]),
        ("%m%d%Y", ["01312016", "1312016"]),
    ],
)
def test_a_request_reads_a_moment_as_preparing_does(form, texts):
    feature = Timestamp("at", format=form, time_zone="Europe/Helsinki")
    prepared = parse_times(pa.array(texts), BadRows(), feature, zones=Counter())
    for text, seconds in zip(texts, prepared.to_pylist(), strict=True):
        if seconds is None:
            with pytest.raises(ValueError, match=r"at is .* not a time"):
                feature.parse(text)
        else:
            assert feature.parse(text) == seconds, text


def test_a_moment_of_another_format_is_named_with_its_own():
    table = Table([Timestamp("at", format="%d.%m.%Y")], label=Regression("y"))
    with pytest.raises(ValueError, match=r"at is '2024-02-29'.*format '%d\.%m\.%Y'"):
        table.parse_instance({"at": "2024-02-29"})


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ({"ages": 3}, "unknown field 'ages'"),
        ({"vector": 1}, "vector is 1; it must be a list"),
        ({"vector": [1, 2, "x"]}, "vector is 'x'; it must be a number"),
        ({"tags": [0.5]}, "tags is 0.5; it must be a text"),
        ({"tags": 1}, "tags is 1; it must be a list, or a text with '|' between"),
        ({"at": "yesterday"}, "at is 'yesterday', which is not a time; it must be ISO 8601"),
        ({"at": "9999-12-31T23:59:59-05:00"}, "at is '9999-.*', which is not a time"),
        ({"at": "0001-01-01T00:00:00+05:00"}, "at is '0001-.*', which is not a time"),
        ({"at": True}, "at is True"),
        ({"at": float("inf")}, "at is inf"),
        ({"note": ["a"]}, r"note is \['a'\]; it must be a text"),
    ],
)
def test_an_invalid_instance_is_named(encoded, instance, message):
    with pytest.raises(ValueError, match=message):
        encoded[1].parse_instance(instance)


def test_a_list_may_be_sent_as_in_the_files(encoded):
    found = encoded[1].parse_instance({"tags": "a | b"})["tags"]
    assert found.tolist() == [b"a", b"b", b""]


TEXTS = [
    *("", "  ", "One two", "Don't stop-me_now!", "ÉTÉ ΣΟΦΟΣ İstanbul ẞ", "a\u00a0b\u3000c d\te\nf"),
    *("[x]^{y}`~@#$%&*()+=<>?/\\|\"':;,.", "日本語 テキスト", "🙂 ok", "ﬁne Ǆ"),
]


def test_tokens_in_the_graph_equal_those_in_python():
    found = tokenize(tf.constant(TEXTS), max_length=20).numpy()
    for text, row in zip(TEXTS, found, strict=True):
        assert [token.decode() for token in row if token] == split_tokens(text), text


def test_tokens_of_ascii_texts_are_those_of_keras():
    texts = [text for text in TEXTS if text.isascii()]
    layer = keras.layers.TextVectorization(output_mode="int")
    layer.adapt(texts)
    known = {token for text in texts for token in split_tokens(text)}
    assert known == set(layer.get_vocabulary()[2:])


@pytest.mark.parametrize("part", ["year", *PART_LIMITS])
def test_parts_of_moments_are_those_of_the_calendar(part):
    random = np.random.default_rng(4)
    days = [datetime(y, m, d) for y in (1600, 1899, 1900, 1970, 2000, 2024, 2100) for m, d in DAYS]
    seconds = [int((day - datetime(1970, 1, 1)).total_seconds()) for day in days]
    seconds = np.array(
        [*seconds, *(at - 1 for at in seconds), *random.integers(-(2**34), 2**34, 999)]
    )
    found = time_part(tf.constant(seconds), part).numpy()
    moments = [datetime(1970, 1, 1) + timedelta(seconds=int(at)) for at in seconds]
    expected = {
        "weekday": [moment.isoweekday() % 7 + 1 for moment in moments],
        **{name: [getattr(moment, name) for moment in moments] for name in PARTS},
    }
    assert found.tolist() == expected[part]
    far = 10 ** np.arange(12, 19)
    assert part_of(pa.array(far), part).to_pylist() == [*time_part(tf.constant(far), part).numpy()]


DAYS = [(1, 1), (2, 28), (3, 1), (12, 31)]
PARTS = ("year", "month", "day", "hour", "minute")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": []}, "features must be a list"),
        ({"features": "age"}, "features must be a list"),
        ({"features": ["age"]}, r"'age' is not a feature; write Number\('age'\)"),
        ({"features": [Number("x"), Category("x")]}, "'x' occurs twice"),
        ({"features": [Number("y")]}, "'y' is the label"),
        ({"features": [Number("key")]}, "'key' is reserved"),
        ({"features": [Number("x", is_used=False)]}, "none of them is used"),
        ({"features": [Number("x", low=3, high=1)]}, "x: low is 3, above high, 1"),
        ({"features": [Number("x", buckets=1)]}, "x: buckets is 1"),
        ({"features": [Number("x", is_scaled=False)]}, "x: with is_scaled=False it needs buckets"),
        ({"features": [Category("x", low=1)]}, "x: whole numbers need both low and high"),
        ({"features": [Category("x", low=0, high=9, hashed=5)]}, "x: hashed and low and high"),
        ({"features": [Category("x", values="ab")]}, "x: values is 'ab'"),
        ({"features": [Category("x", low=0, high=10**9)]}, "x: it has 1,000,000,001 categories"),
        ({"features": [Timestamp("x", parts=("hours",))]}, "x: 'hours' is not a part"),
        ({"features": [TimePart("x", of="z", part="hour")]}, "x: 'z' is not a Timestamp"),
        ({"features": [Number("x", buckets=3), Number("x_bucket")]}, "model's input 'x_bucket'"),
        ({"label": "y"}, r"label is 'y'; it must be Binary"),
        ({"model": 5}, "'model' is 5; it must be a function"),
        ({"model": lambda inputs, units: inputs}, "the argument 'units' .* needs a default"),
        ({"class_weights": {1: 2.0}}, "class_weights need a label of classes"),
        ({"crosses": [("x", "z")]}, "crosses: 'x' in 'x:z' is not a column"),
        ({"label": Binary("y"), "class_weights": "even"}, "class_weights is 'even'; it must be"),
        ({"label": Binary("y"), "class_weights": {1: -2}}, "class_weights: 1 has -2; it must be 0"),
        ({"label": Binary("y"), "class_weights": {1: "2"}}, "1 has '2'; it must be a number"),
        (
            {"label": Binary("y", positive="a"), "class_weights": {"b": 1, "c": 2}},
            "'b' and 'c' are both not 'a', the positive class",
        ),
        (
            {"label": Classes("y", values=("cat", "dog")), "class_weights": {"Cat": 1}},
            "class_weights: 'Cat' is not a class; did you mean",
        ),
    ],
)
def test_a_wrong_declaration_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        Table(**{"features": [Number("x")], "label": Regression("y"), **change})


def test_crosses_and_weights_may_have_the_names_of_files():
    aliases = {"Plan (now)": "plan", "Type": "kind", "Weight (kg)": "weight"}
    features = [Category("plan", values=("a",)), Category("kind", values=("b",))]
    crosses = [["Plan (now)", "KIND"]]
    label = Binary("y")
    table = Table(
        features, label=label, weight="Weight (kg)", aliases=aliases, crosses=crosses, name="t"
    )
    assert table.weight == "weight"
    assert table.crosses == (("plan", "kind"),)
    changed = table.with_settings({"crosses": "Type:plan (now)"})
    assert changed.crosses == (("kind", "plan"),)
