"""The protos that requests are checked against, imported without the SDK's clients."""

import subprocess
import sys

SCRIPT = """
import sys
from vertex_local.api import protos

assert protos.parse("Model", {"display_name": "one"}) == {"displayName": "one"}
assert not [name for name in sys.modules if name.startswith("google.cloud.aiplatform_v1.services")]
from google.cloud import aiplatform_v1

assert aiplatform_v1.Model is protos._types().Model
assert aiplatform_v1.ModelServiceClient
assert protos.parse("Model", {"display_name": "two"}) == {"displayName": "two"}
"""


def test_protos_are_imported_without_clients_and_the_package_later_is_whole():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)


def test_protos_are_those_of_a_package_that_was_imported_whole():
    script = "from google.cloud import aiplatform_v1\n" + SCRIPT.replace("assert not", "_ =")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
