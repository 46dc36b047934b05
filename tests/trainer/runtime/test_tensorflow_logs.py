"""Filters of TensorFlow's messages."""

import sys
from types import SimpleNamespace

from trainer.runtime.tensorflow_logs import hide_destructor_errors, import_tensorflow

import_tensorflow()

import tensorflow as tf  # noqa: E402


def test_destructor_errors_are_hidden_only_for_lost_servers(monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    hide_destructor_errors()

    lost, other = tf.errors.UnavailableError(None, None, "connection refused"), ValueError("bug")
    for error in (lost, other):
        sys.unraisablehook(SimpleNamespace(exc_value=error))
    assert [one.exc_value for one in shown] == [other]
