"""Modules of Trainyard's programs, for forks that do not wait for their import.

Imported in the process that forks, this module says which programs start another one.
"""

from vertex_local.tests.support.spares import STARTED_BY

# Imports of commands, services, steps and replicas, which take ten seconds.
EVERYTHING = (
    "tests.support.processes.everything",
    "tensorflow",
    "apache_beam",
    "components.prepare_examples.prepare",
    "trainer.loop",
    "tensorboard.summary",  # TensorFlow imports it when it first writes a summary
    "kfp.local",
    "kfp.dsl.executor_main",
    "vertex_local.server",
    "pipelines.cli",
    "pipelines.command.running.runs",
    "pipelines.command.running.submit",
)
STARTED_BY |= {
    "pipelines.cli": "vertex_local.cli",
    "pipelines.cli check": "trainer.runtime.processes",
}
