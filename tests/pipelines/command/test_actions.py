"""JSON on stdout."""

import io
import sys

import pytest

from pipelines.command.actions import print_json

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "größe €"), ("ascii", r"\u20ac")])
def test_letters_are_printed_as_they_are_if_stdout_has_them(monkeypatch, encoding, shown):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stdout)
    print_json({"label": "größe €"})
    stdout.seek(0)
    assert shown in stdout.read()
