"""What `python -m trainer.task --help` says around the list of flags."""

from trainer.errors import EXIT_RESTART

DESCRIPTION = """\
Train a workload on the examples of a folder, on one machine or as one replica of a cluster.

One machine needs nothing else. In a cluster each replica runs this same command and learns its
role from TF_CONFIG, as on Vertex AI; `--strategy auto` follows from it."""

EPILOG = f"""\
example:
  python -m trainer.task --workload mnist --examples-dir examples --output-dir run1

writes, under --output-dir:
  model/              the SavedModel: takes raw features, answers class, label and probabilities
  checkpoints/        the latest checkpoints; a job started again goes on from there
  logs/               what TensorBoard shows, and metrics.jsonl with one JSON object a line

environment:
  TF_CONFIG                 the cluster and this replica's task (none: one machine)
  AIP_MODEL_DIR             where model/ goes when --output-dir is not given
  AIP_CHECKPOINT_DIR        the same for checkpoints/
  AIP_TENSORBOARD_LOG_DIR   the same for logs/

strategies:
  single                 one replica
  mirrored               one replica with several GPUs (or --cpu-devices): each trains on its part
                         of every batch, and the sum of their gradients is applied
  multi_worker_mirrored  the same over several replicas: workers, with or without a chief
  parameter_server       a chief that hands out steps, workers that compute them, and ps that hold
                         the weights; asynchronous, and a worker that is lost may be started again
  TF_CONFIG may also name a replica evaluator, outside its cluster: it measures each checkpoint.

exit codes:
  0 done, 1 failed, 2 wrong settings
  {EXIT_RESTART} start me again: the job was stopped by SIGTERM and has saved a checkpoint, or
      another replica was lost; started again, the job goes on from its last checkpoint"""
