"""A measurement in a process of its own, so that no way finds what another has warmed up."""

import json
import subprocess
import sys
from typing import Any

TIMEOUT_SECONDS = 3600


def run_in_new_process(benchmark: str, *arguments: str) -> Any:
    """Return what `python -m benchmarks.BENCHMARK --run ARGUMENTS` prints, which is JSON."""
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--run", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])
