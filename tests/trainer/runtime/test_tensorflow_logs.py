"""TensorFlow's settings at import, and filters of its messages."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

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


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("0", "0")])
def test_onednn_is_used_on_every_cpu_unless_switched_off(given, expected):
    name = "TF_ENABLE_ONEDNN_OPTS"
    code = f"import os, trainer; print(os.environ['{name}'])"
    env = {key: text for key, text in os.environ.items() if key != name}
    env |= {name: given} if given else {}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stdout.decode().strip() == expected
