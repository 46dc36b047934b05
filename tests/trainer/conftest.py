"""Flags of the trainer."""

import pytest


@pytest.fixture
def flags(examples_dir, tmp_path):
    """Return the flags of a training whose results are in `out`."""
    return [
        *("--workload", "mnist", "--examples-dir", examples_dir, "--output-dir", tmp_path / "out"),
        *("--batch-size", 32, "--steps-per-call", 10, "--log-every-steps", 20),
    ]
