"""The label by which everything a run makes is found again.

The PipelineJob carries it, and the GCPC launchers copy a PipelineJob's labels to the jobs and model
versions they create. So no cached step's inputs name the run, and its cache key stays the same.
"""

RUN_LABEL = "trainyard_run"

# Vertex AI gives every PipelineJob this label, with a value of its own. The runs of a schedule have
# all other labels in common.
# https://cloud.google.com/vertex-ai/docs/pipelines/understand-pipeline-cost-labels
BILLING_LABEL = "vertex-ai-pipelines-run-billing-id"

# On a model version that a run has uploaded: CANDIDATE until the run has promoted it. A version
# without it was not uploaded by a run.
STATE_LABEL = "trainyard_state"
CANDIDATE, PROMOTED = "candidate", "promoted"

# On the same version: the first digits of a digest of its files, so that the same model is known.
MODEL_LABEL = "trainyard_model"

# On each run of a schedule: the schedule's name.
SCHEDULE_LABEL = "trainyard_schedule"

# Tells a submission of a job, or an upload by hand, from all others, so that a request without an
# answer can be repeated.
SUBMISSION_LABEL = "trainyard_submission"
