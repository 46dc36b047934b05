import subprocess
import sys

import pytest

HEAVY = ("tensorflow", "keras", "apache_beam", "google.cloud.aiplatform")


@pytest.mark.parametrize(
    "module",
    [
        "components.predict.step",
        "components.prepare_examples.cli",
        "components.prepare_examples.fetch",
        "components.prepare_examples.writer",
        "components.evaluate.step",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(module):
    program = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
