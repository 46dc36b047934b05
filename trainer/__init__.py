"""The program of every replica of a training job, and of the prediction server."""

import os
from typing import Any

# TensorFlow's libraries read these when they are loaded. The messages that the first does not hide
# are filtered by `trainer.runtime.tensorflow_logs`. The second is the default on CPUs with AVX-512
# VNNI only, but on one with AVX2 MNIST's CNN trains 1.5 times as fast with it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

Json = dict[str, Any]  # a JSON object
