"""The pipelines: one that trains, and those that `trainyard compile --pipeline` writes."""

BATCH_PREDICT, WATCH_ENDPOINT = "batch-predict", "watch-endpoint"
# By name: KFP takes a second to import, so a pipeline is imported when it is compiled.
PIPELINES = {
    BATCH_PREDICT: "pipelines.dags.batch_predict:batch_predict_files",
    WATCH_ENDPOINT: "pipelines.dags.watch_endpoint:watch_one_endpoint",
}
