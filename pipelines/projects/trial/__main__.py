"""`python -m pipelines.projects.trial REFERENCE FILE`: write findings as JSON, one in each line."""

import argparse
import faulthandler
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from components.evaluate.gate.options import GateOptions
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.trial.steps import Trial


def main(argv: Sequence[str] | None = None) -> int:
    """Try a workload; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.projects.trial", description=__doc__)
    parser.add_argument("reference", help="as of --workload of the trainer")
    parser.add_argument(
        "settings", type=Path, help="JSON: train, prepare, thresholds and gate of a run"
    )
    parser.add_argument("--data-dir", default="", help="folder of the workload's downloaded data")
    arguments = parser.parse_args(argv)
    # What the user's code prints goes to stderr, also what it does so below Python.
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.register(signal.SIGUSR1)  # to find the line of the user's code that hangs
    settings = json.loads(arguments.settings.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="trainyard-check-") as folder, stdout:
        trial = Trial(
            arguments.reference,
            train=settings["train"],
            options=PrepareOptions.from_values(settings["prepare"]),
            thresholds=settings["thresholds"],
            gate=GateOptions.from_json(json.dumps(settings["gate"])),
            folder=Path(folder),
            data_dir=arguments.data_dir,
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
