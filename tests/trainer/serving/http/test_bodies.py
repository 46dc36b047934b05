"""Fast JSON is as strict as strict_json."""

import orjson
import pytest

from trainer.serving import strict_json
from trainer.serving.http import bodies
from trainer.serving.http.messages import RequestError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("content", "signature"),
    [
        ({}, "serving_default"),
        ({"parameters": {"a": 1}}, "serving_default"),
        ({"signature_name": ""}, "serving_default"),
        ({"signature_name": "examples"}, "examples"),
    ],
    ids=str,
)
def test_a_request_may_have_parameters_and_name_a_signature(content, signature):
    request = bodies.parse_instances(orjson.dumps({"instances": [1, 2], **content}))
    assert (request.instances, request.signature) == ([1, 2], signature)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"instance": [1]}, "the body must be"),
        ({"instances": []}, "one instance or more"),
        ({"instances": [1], "inputs": [1]}, '"inputs".* is not supported'),
        ({"instances": [1], "row": 1}, "'row'; allowed are instances, parameters, signature_name"),
        ({"instances": [1], "signature_name": 5}, "signature_name is 5; it must be a text"),
    ],
    ids=str,
)
def test_other_keys_of_a_request_are_refused(content, message):
    with pytest.raises(RequestError, match=message):
        bodies.parse_instances(orjson.dumps(content))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"NaN",
        b"[-Infinity]",
        b"[1e999]",
        b'{"instances": [{"age": 1e400}]}',
        b"[" + b"9" * 400 + b".5]",
        b'["\\ud800"]',
        b'["\xed\xa0\x80"]',
        b'"\xff"',
        b'{"a": 1, "a": 1}',
        b'{"a": 1, "b": [0, {"c": 1, "c": 2}]}',
        b'[{"a": 1}, {"a": ":", "a": ":"}]',
        b'{"a": [{"b": {"c": 1, "c": 2}}], "d": {"e": 3}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1]]",
    ],
    ids=lambda text: text.decode("latin-1")[:20],
)
def test_the_same_texts_are_refused_with_the_same_message(text):
    with pytest.raises(ValueError) as expected:  # noqa: PT011 - the other parser's
        strict_json.parse(text)
    with pytest.raises(ValueError) as found:  # noqa: PT011
        bodies.parse_json(text)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    "text",
    [
        b"1",
        b"{}",
        b'"a:b"',
        b'{"a:b": [{"c": "12:30"}, {"c": ":"}]}',
        b'{"instances": [{"a": 1, "b": {"b64": "eA=="}}, {"a": 2, "b": null}]}',
        b'{"instances": [[[0, 1.5], [1e-999, -2]]], "key": {"c": {}}}',
        b'["\\ud83d\\ude00", 9223372036854775807]',
    ],
)
def test_other_texts_have_the_same_value(text):
    assert bodies.parse_json(text) == strict_json.parse(text)


@pytest.mark.parametrize("text", [b"[18446744073709551616]", b'{"a:b": [18446744073709551616]}'])
def test_an_integer_of_more_than_64_bits_becomes_a_float(text):
    assert "1.8446744073709552e+19" in str(bodies.parse_json(text))


def test_texts_without_colons_in_strings_need_one_parser(monkeypatch):
    monkeypatch.setattr(strict_json, "parse", None)
    assert bodies.parse_json(b'{"instances": [{"a": {"b": [0, {"c": 1}]}, "d": 2}]}')
