"""A workload from a script, or cell by cell (`# %%`) in a notebook; docs/python.md explains it.

python examples/from_python.py, after python examples/fetch.py wine.
"""

# %% The folder has a workload.py, which declares the data and the model.
import sys
from pathlib import Path

import trainyard

folder = sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).with_name("wine"))
workload = trainyard.load_workload(folder)
print(workload.label)

# %% Try it on some of its data: every mistake, with its file and line.
problems = [problem for finding in trainyard.check(folder) for problem in finding.problems]
assert not problems, problems

# %% Run the whole pipeline here; on="vertex" and project="…" run the same on Vertex AI.
run = trainyard.run(folder, set={"train.epochs": 3})
print(run.summary.outcome, run.model_version)
print(run.summary.metrics)
print(run.report)

# %% Ask the promoted model.
rows = [dict.fromkeys(workload.feature_names)]  # without values; yours: {"alcohol": 13.2, …}
for prediction in run.predict(rows):
    print(prediction)
