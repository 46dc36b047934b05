"""`vertex-local` as a command."""

import subprocess
import sys

import vertex_local


def test_the_version_is_its_own_and_printed_without_imports():
    code = """
import sys
from vertex_local.cli import main
try:
    main(["--version"])
finally:
    assert not {"kfp", "google.protobuf", "werkzeug"} & set(sys.modules)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[0].split()[1:] == [vertex_local.__version__]
