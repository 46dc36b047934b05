import subprocess
import sys

import pytest

pytestmark = pytest.mark.fast

HEAVY = ("tensorflow", "keras", "apache_beam", "google.cloud.aiplatform")


@pytest.mark.parametrize(
    "module",
    [
        "components.endpoint.predict.step",
        "components.prepare_examples.cli",
        "components.prepare_examples.raw_data.fetch",
        "components.prepare_examples.images.shards",
        "components.evaluate.step",
        "components.start.step",
        "components.start.comparison",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(module):
    program = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


PARSE = """
import sys
from pipelines.cli import parse
try:
    parse(sys.argv[1:])
finally:
    print(*sys.modules)
"""
SLOW_TO_START = {
    *HEAVY,
    "numpy",
    "pyarrow",
    "yaml",
    "kfp",
    "google.auth",
    "google.protobuf",
    "rich",
}


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ("--help", {"requests", "pipelines.command.serving.models", "pipelines.places"}),
        ("modles list", {"requests", "pipelines.command.serving.models", "pipelines.places"}),
        ("models list", {"pipelines.command.running.runs", "pipelines.serving.upload"}),
        ("models rollback m", {"pipelines.command.running.runs", "pipelines.serving.upload"}),
        ("runs list", {"pipelines.command.serving.models", "pipelines.command.running.submit"}),
        ("runs cancel r", {"pipelines.command.serving.models", "pipelines.command.running.submit"}),
        (
            "jobs list",
            {"pipelines.command.serving.models", "pipelines.command.training.jobs_submit"},
        ),
        ("endpoints list", {"pipelines.command.running.runs", "pipelines.command.serving.predict"}),
    ],
)
def test_a_light_command_imports_only_what_it_needs(line, without):
    done = subprocess.run(
        [sys.executable, "-c", PARSE, *line.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    assert (SLOW_TO_START | without).isdisjoint(done.stdout.split())
