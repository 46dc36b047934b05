"""Methods that `test_sdk_methods.py` calls with Google's clients, by service."""

RECORDED = {
    "EndpointService": (
        "CreateEndpoint DeleteEndpoint DeployModel GetEndpoint ListEndpoints "
        "MutateDeployedModel UndeployModel UpdateEndpoint"
    ),
    "JobService": (
        "CancelBatchPredictionJob CreateBatchPredictionJob DeleteBatchPredictionJob "
        "GetBatchPredictionJob ListBatchPredictionJobs "
        "CancelCustomJob CreateCustomJob DeleteCustomJob GetCustomJob ListCustomJobs "
        "CancelHyperparameterTuningJob CreateHyperparameterTuningJob "
        "DeleteHyperparameterTuningJob GetHyperparameterTuningJob ListHyperparameterTuningJobs"
    ),
    "ModelService": (
        "CopyModel DeleteModel DeleteModelVersion ExportModel "
        "GetModel GetModelEvaluation ImportModelEvaluation "
        "ListModelEvaluations ListModelVersions ListModels MergeVersionAliases UpdateModel "
        "UploadModel"
    ),
    "PipelineService": (
        "BatchCancelPipelineJobs BatchDeletePipelineJobs "
        "CancelPipelineJob CreatePipelineJob DeletePipelineJob GetPipelineJob ListPipelineJobs "
        "CancelTrainingPipeline CreateTrainingPipeline DeleteTrainingPipeline GetTrainingPipeline "
        "ListTrainingPipelines"
    ),
    "PredictionService": "Predict",
    "ScheduleService": (
        "CreateSchedule DeleteSchedule GetSchedule ListSchedules PauseSchedule ResumeSchedule "
        "UpdateSchedule"
    ),
}
