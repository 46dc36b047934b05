"""Labels of the resources that a run creates.

A PipelineJob has the label of its run, and the GCPC launchers copy a PipelineJob's labels to the
jobs and model versions they create. So no input of a cached step names the run, and its cache key
stays the same from run to run.
"""

import re
from typing import Any

MAX_VALUE = 63  # characters of a label's value
RUN_LABEL = "trainyard_run"

# Vertex AI gives every PipelineJob this label with a unique value; the runs of a schedule have the
# same values in all other labels.
# https://cloud.google.com/vertex-ai/docs/pipelines/understand-pipeline-cost-labels
BILLING_LABEL = "vertex-ai-pipelines-run-billing-id"

# On a model version that a run uploaded: CANDIDATE until the run promotes it, then PROMOTED; or
# CHALLENGER, if it did not pass and is kept nevertheless; or WAITING, until a person approves it.
# REJECTED on any version that a person rejected: no run promotes the same model again.
STATE_LABEL = "trainyard_state"
CANDIDATE, PROMOTED, CHALLENGER = "candidate", "promoted", "challenger"
WAITING, REJECTED = "waiting", "rejected"

# On the version that was the default when a person held its model: no run moves the default.
HELD_LABEL = "trainyard_held"

# On the same version: the first digits of a digest of its files, to recognize the same model.
MODEL_LABEL = "trainyard_model"

# On each run of a schedule: the schedule's name.
SCHEDULE_LABEL = "trainyard_schedule"

# On a run that a person started: the person, as `label_value` writes `ann@desk`.
STARTER_LABEL = "trainyard_by"

# On the pipeline of one task that `trainyard step` executes: the task. It is no run of a user.
STEP_LABEL = "trainyard_step"

# On a submitted job and a model uploaded by hand: a unique value, by which a retry of the request
# finds what an earlier attempt created.
SUBMISSION_LABEL = "trainyard_submission"


def label_value(text: str) -> str:
    """Return a text as the value of a label, which can hold lower-case words only."""
    return "-".join(re.findall("[a-z0-9]+", text.lower()))[:MAX_VALUE].rstrip("-")


def label_of(resource: dict[str, Any], label: str) -> str:
    """Return the value of a resource's label, "" without it."""
    return str(resource.get("labels", {}).get(label, ""))
