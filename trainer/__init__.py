"""What runs on every replica of a training job, and in the prediction server."""

import os

# Read by TensorFlow's libraries when they are loaded; what it does
# not hide, `trainer.runtime.tensorflow_logs` does.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
