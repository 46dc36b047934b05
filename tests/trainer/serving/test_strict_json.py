"""Strict JSON: texts that programs parse differently are refused."""

import pytest

from trainer.serving.strict_json import parse

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "Expecting value"),
        (b"NaN", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "Infinity"),
        (b"[1e999]", "1e999"),
        (b"[-1e999]", "-1e999"),
        (b"[" + b"9" * 400 + b".5]", "too large"),
        (b'{"a": [{"b": 1, "c": [2, -1e400]}]}', '^"c": the number -1e400 is too large$'),
        (b'["\\ud800"]', "ud800"),
        (b'["\\udc00\\ud800"]', "udc00"),
        (b'{"\\udfff": 1}', "udfff"),
        (b'["\xed\xa0\x80"]', "utf-8"),
        (b'"\xff"', "utf-8"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', '"c".*twice'),
        (b"[" * 100_000, "too deeply"),
        (b'{"a":' * 100_000, "too deeply"),
        (b"9" * 9000, "digits"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_other_json_is_parsed():
    text = b'{"a": [1, -2.5, 1e300, 1e-999, null, true, "\\ud83d\\ude00", "\xf0\x9f\x98\x80"]}'
    assert parse(text) == {"a": [1, -2.5, 1e300, 0.0, None, True, "😀", "😀"]}
