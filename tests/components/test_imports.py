import subprocess
import sys

import pytest

pytestmark = pytest.mark.fast

HEAVY = ("tensorflow", "keras", "apache_beam", "google.cloud.aiplatform")


@pytest.mark.parametrize(
    "module",
    [
        "components.predict.step",
        "components.prepare_examples.command_line.cli",
        "components.prepare_examples.raw_data.fetch",
        "components.prepare_examples.images.beam_pipeline",
        "components.evaluate.step",
        "components.new_data.step",
        "components.new_data.drift_since",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(module):
    program = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
