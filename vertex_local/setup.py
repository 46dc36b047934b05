"""Builds in a temporary folder: setuptools' own would stay in this one, as `build/`."""

import tempfile

from setuptools import setup

with tempfile.TemporaryDirectory(prefix="vertex-local-build-") as folder:
    setup(options={"build": {"build_base": folder}})
