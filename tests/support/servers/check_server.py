"""The check of a model's server as a program: `python -m … MODEL GOLDEN [GATE]`.

The latencies are written beside the golden predictions.
"""

import json
import logging
import sys
from pathlib import Path

from components.errors import errors_in_one_line
from components.evaluate.gate.options import GateOptions
from components.evaluate.server.check import check_served_model
from components.evaluate.server.server import serving
from trainer.config.trust import OWN
from trainer.workloads.description import read_description

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    model, golden = map(Path, sys.argv[1:3])
    options = GateOptions.from_json(sys.argv[3])
    with errors_in_one_line(), serving(str(model), trust=OWN) as url:
        description = json.loads((model / "workload.json").read_text())
        workload = read_description(description, trusts_code=True)
        content = json.loads(golden.read_text())
        values = check_served_model(url, content, workload=workload, options=options)
        golden.with_name("metrics.json").write_text(json.dumps(values))
