"""Report to a tuning job, in the file and format of the package cloudml-hypertune.

https://cloud.google.com/vertex-ai/docs/training/code-requirements#hp-tuning-metric
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

TRIAL_VARIABLE, FILE_VARIABLE = "CLOUD_ML_TRIAL_ID", "CLOUD_ML_HP_METRIC_FILE"
DEFAULT_FILE = "/tmp/hypertune/output.metrics"  # where Vertex AI reads it


def report_to_tuner(metrics: Mapping[str, float], *, step: int) -> None:
    """Append the metrics of the eval split after a step, if this job is a trial."""
    trial = os.environ.get(TRIAL_VARIABLE)
    if not trial:
        return
    path = Path(os.environ.get(FILE_VARIABLE) or DEFAULT_FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"timestamp": time.time(), "trial": trial, "global_step": str(step)}
    with path.open("a", encoding="utf-8") as file:
        for name, value in metrics.items():
            line = {**about, name: str(float(value)), "checkpoint_path": ""}
            file.write(json.dumps(line) + "\n")
