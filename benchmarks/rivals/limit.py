"""Rate of the model itself: instances a second of `predict` with 64 at a time, without a server."""

import json
import os
import sys
import time
from pathlib import Path

from trainer.serve import load_ready_predictor

BATCH_SIZE, SECONDS = 64, 3.0


def main() -> None:
    """Print the rate."""
    predictor = load_ready_predictor(os.environ["AIP_STORAGE_URI"])
    [instance] = json.loads(Path(sys.argv[1]).read_text())["instances"]
    instances, count = [instance] * BATCH_SIZE, 0
    for _ in range(20):
        predictor.predict(instances)
    began = time.perf_counter()
    while (seconds := time.perf_counter() - began) < SECONDS:
        predictor.predict(instances)
        count += BATCH_SIZE
    sys.stdout.write(f"{count / seconds}\n")


if __name__ == "__main__":
    main()
