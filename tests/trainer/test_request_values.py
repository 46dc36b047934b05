"""Base64 texts as people send them."""

import base64

import pytest

from trainer.request_values import decode_base64

pytestmark = pytest.mark.fast
DATA = bytes(range(256)) + b"\xfb\xff\xfe"
STANDARD = base64.b64encode(DATA).decode()
FORMS = {
    "standard": STANDARD,
    "url-safe": base64.urlsafe_b64encode(DATA).decode(),
    "unpadded": STANDARD.rstrip("="),
    "lines": base64.encodebytes(DATA).decode(),
    "data-url": f"data:image/png;base64,{STANDARD}",
    "parameters": f"data:text/plain;charset=utf-8;base64,{STANDARD}",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_form_is_read(text):
    assert decode_base64(text) == DATA


@pytest.mark.parametrize("text", ["?", "a", "data:,abc", "YQ==YQ==", 5, None, ["YQ=="]], ids=str)
def test_other_values_are_refused(text):
    with pytest.raises(ValueError, match="its 'b64' is not base64"):
        decode_base64(text)
