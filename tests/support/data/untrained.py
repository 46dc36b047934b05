"""An exported MNIST model that nobody has trained."""

from pathlib import Path
from typing import Any


def export_untrained(folder: Path) -> Any:
    """Export the model into a folder; return its predictor."""
    from trainer.serving.export import export_model, load_predictor
    from trainer.workloads import load_workload

    workload = load_workload("mnist")
    export_model(workload.build_model(), workload, str(folder))
    return load_predictor(str(folder))
