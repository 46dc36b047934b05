"""Weight of each service of the SDK: the notebooks of vertex-ai-samples that use it."""

import json
import re
from collections import Counter
from pathlib import Path

# By what a notebook's code says; the first are the flows.
PATTERNS = {
    "pipeline_jobs": r"PipelineJob\(|PipelineServiceClient|create_pipeline_job",
    "schedules": r"\.create_schedule\(|PipelineJobSchedule|ScheduleServiceClient",
    "models": r"Model\.upload|(aip|aiplatform)\.Model\(|ModelServiceClient|ModelUploadOp",
    "endpoints": r"Endpoint\.create|EndpointServiceClient|\.deploy\(|ModelDeployOp",
    "custom_jobs": r"CustomJob[(.]|create_custom_job|CustomTrainingJobOp",
    "tuning_jobs": r"HyperparameterTuningJob\(|create_hyperparameter_tuning_job",
    "training_pipelines": r"Custom(Container|PythonPackage)?TrainingJob\(|create_training_pipeline",
    "batch predictions": r"batch_predict\(|BatchPredict|create_batch_prediction_job",
    "data sets": r"(Tabular|Image|Text|Video|TimeSeries)Dataset[(.]|DatasetServiceClient",
    "AutoML": r"AutoML\w+TrainingJob",
    "explanations": r"\.explain\(|explanation_(metadata|spec)",
    "experiments, metadata": r"experiment=|start_run\(|log_params\(|MetadataServiceClient",
    "TensorBoard": r"Tensorboard[.(]|TensorboardServiceClient",
    "feature store": r"[fF]eature(OnlineStore|store|Group|View)",
    "monitoring": r"ModelDeploymentMonitoring|ModelMonitor",
    "vector search": r"MatchingEngineIndex|IndexServiceClient",
    "Vizier": r"VizierServiceClient|Study\.create",
}


def notebooks_by_service(samples: Path) -> Counter[str]:
    """Count the notebooks below a clone of vertex-ai-samples that use each service."""
    counts = Counter(dict.fromkeys(PATTERNS, 0))
    for path in sorted((samples / "notebooks").rglob("*.ipynb")):
        try:
            cells = json.loads(path.read_text())["cells"]
        except (ValueError, KeyError):  # one of 700 is not JSON
            continue
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        counts.update(name for name, text in PATTERNS.items() if re.search(text, code))
    return counts
