"""Jobs of one replica in the test's process, ends of replicas, and what a job has written."""

import json
import threading

from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.loop import train_synchronously  # noqa: E402
from trainer.training.checkpoint import list_checkpoints  # noqa: E402
from trainer.training.job import make_job  # noqa: E402

CPU = "/device:CPU:0"


def new_job(examples_dir, out, *, cluster=None, **settings):
    """Return a job on examples: by default of digits, in batches of 32."""
    defaults = {"workload": "mnist", "examples_dir": str(examples_dir), "batch_size": 32}
    config = TrainConfig(**defaults | settings)
    folders = resolve_folders(str(out), {})
    return make_job(config, cluster or Cluster(), folders, threading.Event())


def train(examples_dir, out, *, num_devices=1, **settings):
    """Train and export; return the job."""
    job = new_job(examples_dir, out, **settings)
    train_synchronously(job, [CPU] * num_devices)
    return job


def read_lines(out, split):
    """Return the lines of a split in a job's metrics."""
    with open(f"{out}/logs/metrics.jsonl", encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["split"] == split]


def read_curve(out, name, split="train"):
    """Return a value of a split's lines, by step."""
    return {line["step"]: line[name] for line in read_lines(out, split)}


def steps_in(out):
    """Return the steps of a job's checkpoints."""
    return [saved.step for saved in list_checkpoints(f"{out}/checkpoints")]


def last_checkpoint(out):
    """Return a job's last checkpoint."""
    return list_checkpoints(f"{out}/checkpoints")[-1]


def exported_variables(model_dir):
    """Return the variables of an exported model, in their order."""
    file = tf.train.load_checkpoint(f"{model_dir}/variables/variables")
    names = [name for name in file.get_variable_to_shape_map() if name.startswith("_variables/")]
    return [file.get_tensor(one) for one in sorted(names, key=lambda one: int(one.split("/")[1]))]


def expect_end(replicas, code=0):
    """Check that all replicas end with the exit code, and none with a traceback."""
    for replica in replicas:
        assert replica.wait() == code, replica.log
        assert "Traceback" not in replica.log
