"""`python -m components.batch_predict`."""

import os
import sys

from components.batch_predict.cli import main

code = main()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # no destructors: TensorFlow's may wait for threads
