"""The step check-model as a program: `python -m tests.support.servers.check_model MODEL GOLDEN`.

A third word is the parameter `gate`. The metrics are written beside the golden predictions.
"""

import sys
from pathlib import Path

from kfp.dsl import Artifact, Metrics, Model

from components.release.check_model.component import check_model

if __name__ == "__main__":
    model, golden = Model(uri=sys.argv[1]), Artifact(uri=sys.argv[2])
    metrics = Metrics(name="metrics", uri=str(Path(sys.argv[2]).with_name("metrics.json")))
    gate = sys.argv[3] if sys.argv[3:] else "{}"
    num_compared = check_model.python_func(model=model, golden=golden, metrics=metrics, gate=gate)
    sys.stdout.write(f"{num_compared}\n")
