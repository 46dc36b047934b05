"""The program of every replica of a training job, and of the prediction server."""

import os
from typing import Any

# TensorFlow's libraries read it when they are loaded. The messages that it does not hide are
# filtered by `trainer.runtime.tensorflow_logs`.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Json = dict[str, Any]  # a JSON object
