"""Strict JSON: the service and the trainer refuse texts that programs parse differently."""

from pathlib import Path

import pytest

from trainer.serving import strict_json as trainers
from vertex_local.http import strict_json as services

pytestmark = pytest.mark.fast

both = pytest.mark.parametrize(
    "parse", [services.parse, trainers.parse], ids=["service", "trainer"]
)


@both
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
def test_is_refused(parse, text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


@both
def test_other_json_is_parsed(parse):
    text = b'{"a": [1, -2.5, 1e300, 1e-999, null, true, "\\ud83d\\ude00", "\xf0\x9f\x98\x80"]}'
    assert parse(text) == {"a": [1, -2.5, 1e300, 0.0, None, True, "😀", "😀"]}


def test_the_copies_are_equal():
    """The trainer runs without the service's package, so it has a copy."""
    ours, other = (Path(module.__file__).read_text("utf-8") for module in (services, trainers))
    assert ours == other
