"""Text around the list of flags in `python -m trainer.task --help`."""

from trainer.errors import EXIT_RESTART

DESCRIPTION = """\
Train a workload on a folder of examples, on one machine or as one replica of a cluster.

One machine needs no other setting. In a cluster every replica runs the same command and reads its
role from TF_CONFIG, as on Vertex AI; `--strategy auto` follows from it."""

EPILOG = f"""\
example:
  python -m trainer.task --workload mnist --examples-dir examples --output-dir run1
  python -m trainer.task --workload churn/ --examples-dir examples --output-dir run2 \\
    --model.units=128

settings of a workload's own model:
  --model.NAME=VALUE  the keyword argument NAME of its function, such as --model.units=128

written below --output-dir:
  model/              the SavedModel: raw features in; class, label and probabilities out
  checkpoints/        the latest checkpoints; a restarted job resumes from the last one
  logs/               events for TensorBoard, and metrics.jsonl with one JSON object per line

environment:
  TF_CONFIG                 the cluster and this replica's task (unset: one machine)
  AIP_MODEL_DIR             folder of model/ without --output-dir
  AIP_CHECKPOINT_DIR        folder of checkpoints/ without --output-dir
  AIP_TENSORBOARD_LOG_DIR   folder of logs/ without --output-dir

strategies:
  single                 one replica
  mirrored               one replica with several GPUs (or --cpu-devices): each computes a share of
                         every batch, and the sum of their gradients is applied
  multi_worker_mirrored  the same over several replicas: workers, with or without a chief
  parameter_server       a chief that hands out steps, workers that compute them, and ps that hold
                         the weights; asynchronous, and a lost worker can restart and rejoin
  A replica can also be an evaluator, which TF_CONFIG names outside its cluster: it evaluates each
  checkpoint.

exit codes:
  0 done, 1 failed, 2 wrong settings
  {EXIT_RESTART} restart the job: it was stopped by SIGTERM and has saved a checkpoint, or another
      replica was lost; a restarted job resumes from its last checkpoint
  a replica that a signal ended, such as SIGALRM if native code stalled, is to be restarted, too"""
