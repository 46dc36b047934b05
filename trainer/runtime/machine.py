"""Facts of this machine that change the bits of a trained model, in a file beside the model.

Rounding depends on the instructions that the processor has, on the number of threads that share a
sum, and on the versions of the packages that compute.
"""

import json
import os
import platform
import re
import sys
from pathlib import Path

from trainer import Json
from trainer.runtime.cores import machine_cores

MACHINE_FILE = "machine.json"
PROCESSOR_FILE = Path("/proc/cpuinfo")  # of Linux; a Mac has one kind of instructions
INSTRUCTIONS = re.compile(r"\b(?:avx|fma|amx|f16c|sse|sve|asimd|bf16|i8mm)\w*")
# Variables that choose kernels, instructions or numbers of threads. Others that begin with TF_ or
# NVIDIA_ are of other programs, and may be secrets.
VARIABLES = re.compile(
    r"TF_(?:AUTOTUNE|CUDA|CUDNN|DETERMINISTIC|DISABLE|ENABLE|FORCE|GPU|MKL|NUM|ONEDNN|USE|XLA)\w*"
    r"|(?:OMP|MKL|OPENBLAS|ONEDNN|DNNL)_\w+"
    r"|XLA_FLAGS|KERAS_BACKEND|CUDA_VISIBLE_DEVICES|NVIDIA_TF32_OVERRIDE"
)


def machine_facts() -> Json:
    """Return the facts by name; `packages` are those that this process has imported."""
    import tensorflow as tf  # here, because commands read what this has written

    config = tf.config.threading
    modules = {name: module for name, module in [*sys.modules.items()] if "." not in name}
    # Not by getattr, which may import or warn.
    versions = {name: vars(module).get("__version__") for name, module in modules.items()}
    processor = PROCESSOR_FILE.read_text("utf-8") if PROCESSOR_FILE.is_file() else ""
    return {
        "python": platform.python_version(),
        "packages": {name: one for name, one in sorted(versions.items()) if isinstance(one, str)},
        "processor": platform.machine(),
        "instructions": sorted({*INSTRUCTIONS.findall(processor)}),
        "cores": machine_cores(),
        "threads": [
            config.get_intra_op_parallelism_threads(),
            config.get_inter_op_parallelism_threads(),
        ],
        "gpus": len(tf.config.list_logical_devices("GPU")),
        "variables": {name: os.environ[name] for name in filter(VARIABLES.fullmatch, os.environ)},
    }


def write_machine(folder: str) -> None:
    """Write `machine.json` in a folder, on this machine or in a bucket."""
    import tensorflow as tf

    with tf.io.gfile.GFile(f"{folder}/{MACHINE_FILE}", "w") as file:
        file.write(json.dumps(machine_facts(), indent=1) + "\n")
