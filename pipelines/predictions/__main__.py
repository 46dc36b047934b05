"""Prediction of files in a process of its own, which `trainyard predict` starts.

It imports TensorFlow and a workload's hooks. Its argument is a JSON object, `_predict`'s arguments.
"""

import json
import logging
import os
import sys
from collections.abc import Sequence

from components.errors import exit_code_of
from pipelines.predictions.options import PredictOptions
from pipelines.predictions.predict import describe, predict_files
from pipelines.predictions.unknown_values import unknown_text
from trainer import Json
from trainer.config.trust import Trust


def main(request: str) -> int:
    """Predict files; return the exit code: 0 done, 1 failed, 2 wrong input."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    return exit_code_of(lambda: _predict(**json.loads(request)))


def _predict(
    model: str,
    *,
    inputs: Sequence[str],
    output_dir: str,
    options: Json,
    trust: Sequence[str],
    is_json: bool = False,
) -> None:
    summary = predict_files(
        model,
        inputs=inputs,
        output_dir=output_dir,
        options=PredictOptions(**options),
        trust=Trust.from_flags(trust),
    )
    if is_json:
        print(json.dumps({**summary, "output": output_dir}, indent=2))
        return
    print(f"{output_dir}: {describe(summary)}")
    if summary["unused_columns"]:
        print(f"columns that the model does not use: {', '.join(summary['unused_columns'])}")
    if summary["unknown_values"]:
        print(f"values that the model does not know: {unknown_text(summary['unknown_values'])}")


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # no destructors: TensorFlow's may wait for threads
