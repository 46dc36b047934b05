"""`python -m pipelines.projects.trial REFERENCE FILE [DATA_DIR]`: write findings as lines of JSON.

The file has `train`, `prepare`, `thresholds` and `gate` of a run as JSON; the folder has the
workload's downloaded data.
"""

import faulthandler
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from components.evaluate.gate.options import GateOptions
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.trial.steps import Trial


def main() -> int:
    """Try a workload; return the exit code."""
    reference, file, *data_dir = sys.argv[1:]
    # What the user's code prints goes to stderr, also what it does so below Python.
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.register(signal.SIGUSR1)  # to find the line of the user's code that hangs
    settings = json.loads(Path(file).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="trainyard-check-") as folder, stdout:
        trial = Trial(
            reference=reference,
            train=settings["train"],
            options=PrepareOptions.from_values(settings["prepare"]),
            thresholds=settings["thresholds"],
            gate=GateOptions.from_values(settings["gate"]),
            folder=Path(folder),
            data_dir="".join(data_dir),
        )
        for finding in trial.findings():
            stdout.write(finding.to_json() + "\n")
            stdout.flush()
    return 0


if __name__ == "__main__":
    # No destructors: TensorFlow's may wait for threads.
    code = main()
    sys.stderr.flush()
    os._exit(code)
