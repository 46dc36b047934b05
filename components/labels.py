"""The label by which everything a run makes is found again.

The PipelineJob carries it, and the GCPC launchers copy a PipelineJob's labels to the jobs and model
versions they create. So no cached step's inputs name the run, and its cache key stays the same.
"""

RUN_LABEL = "trainyard_run"
